//! Tokens of the text form.

use logos::Logos;

/// A token. Names keep their text; sigils are stripped and quotes undone by [`name_of`].
#[derive(Logos, Debug, Clone, Copy, PartialEq)]
#[logos(skip r"[ \t\r\n]+")]
#[logos(skip(r"#[^\n]*", allow_greedy = true))]
pub(super) enum Token<'s> {
    /// `name`
    #[regex(r"[A-Za-z_][A-Za-z0-9_]*", |lex| lex.slice())]
    Ident(&'s str),
    /// `%name`
    #[regex(r"%[A-Za-z0-9_][A-Za-z0-9_.]*", |lex| lex.slice())]
    #[regex(r#"%"([^"\\\n]|\\[^\n])*""#, |lex| lex.slice())]
    Value(&'s str),
    /// `@name`
    #[regex(r"@[A-Za-z0-9_][A-Za-z0-9_.]*", |lex| lex.slice())]
    #[regex(r#"@"([^"\\\n]|\\[^\n])*""#, |lex| lex.slice())]
    Global(&'s str),
    /// `"text"`
    #[regex(r#""([^"\\\n]|\\[^\n])*""#, |lex| lex.slice())]
    Str(&'s str),
    /// `12`
    #[regex(r"[0-9]+", |lex| lex.slice())]
    Int(&'s str),
    /// `1.5`, `1e-7`
    #[regex(r"[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?", |lex| lex.slice())]
    #[regex(r"[0-9]+[eE][+-]?[0-9]+", |lex| lex.slice())]
    Float(&'s str),
    /// `0x1f`
    #[regex(r"0x[0-9a-f]+", |lex| lex.slice())]
    Hex(&'s str),
    /// Punctuation.
    #[token("(", |lex| lex.slice())]
    #[token(")", |lex| lex.slice())]
    #[token("[", |lex| lex.slice())]
    #[token("]", |lex| lex.slice())]
    #[token("{", |lex| lex.slice())]
    #[token("}", |lex| lex.slice())]
    #[token(",", |lex| lex.slice())]
    #[token(":", |lex| lex.slice())]
    #[token("=", |lex| lex.slice())]
    #[token("->", |lex| lex.slice())]
    #[token("+", |lex| lex.slice())]
    #[token("-", |lex| lex.slice())]
    #[token("*", |lex| lex.slice())]
    #[token("//", |lex| lex.slice())]
    #[token("%", |lex| lex.slice())]
    #[token("?", |lex| lex.slice())]
    #[token("@", |lex| lex.slice())]
    #[token("..=", |lex| lex.slice())]
    #[token("..", |lex| lex.slice())]
    Punct(&'s str),
}

/// A token with its byte position; what is no token keeps its text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spanned<'s> {
    pub(super) token: Result<Token<'s>, &'s str>,
    pub(super) at: usize,
}

/// All tokens, in order.
pub(super) fn tokens(text: &str) -> Vec<Spanned<'_>> {
    Token::lexer(text)
        .spanned()
        .map(|(token, span)| Spanned {
            token: token.map_err(|()| &text[span.clone()]),
            at: span.start,
        })
        .collect()
}

/// The name in a `Value`, `Global` or `Str` token: sigil removed, quotes and escapes undone. `None` for a bad escape.
pub(super) fn name_of(text: &str) -> Option<String> {
    let text = text.strip_prefix(['%', '@']).unwrap_or(text);
    let Some(quoted) = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) else {
        return Some(text.to_owned());
    };
    let (mut out, mut chars) = (String::new(), quoted.chars());
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next()? {
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            '0' => out.push('\0'),
            c @ ('"' | '\\' | '\'') => out.push(c),
            'u' => {
                let rest = chars.as_str().strip_prefix('{')?;
                let (digits, rest) = rest.split_once('}')?;
                out.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
                chars = rest.chars();
            }
            _ => return None,
        }
    }
    Some(out)
}

/// Whether a name needs no quotes after a sigil.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.')
}

/// Whether a name is an identifier.
pub(super) fn is_ident(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
