//! The parser's cursor, and the top level of a module.

use super::error::{ParseError, nearest};
use super::lex::{Spanned, Token, name_of, tokens};
use crate::annotation::DType;
use crate::graph::{ConstId, Constant, ConstantData, Distribution, FuncId, Generator, Module, ProgramId};
use crate::index::Idx;
use std::collections::HashMap;

/// How deep annotations, expressions and scalars may nest. Deeper text is refused, so that recursion ends before the stack
/// does.
const MAX_DEPTH: usize = 256;

/// Parses a module.
///
/// # Errors
/// At the first place where the text is not a module, with what was expected there. Never panics.
pub fn parse(text: &str) -> Result<Module, ParseError> {
    let mut parser = Parser {
        text,
        tokens: tokens(text),
        at: 0,
        depth: 0,
        globals: Globals::default(),
    };
    parser.collect_globals()?;
    let mut module = Module::default();
    while parser.peek().is_some() || parser.at < parser.tokens.len() {
        if parser.keyword("constant") {
            module.constants.push(parser.constant()?);
        } else if parser.keyword("program") {
            module.programs.push(parser.program()?);
        } else if parser.keyword("func") {
            module.functions.push(parser.function()?);
        } else {
            return Err(parser.error_near(
                "`constant`, `program` or `func`",
                &["constant", "program", "func"],
            ));
        }
    }
    Ok(module)
}

/// Names of the module, known before anything is parsed, so that functions may call functions further down.
#[derive(Default)]
pub(super) struct Globals {
    pub(super) functions: HashMap<String, FuncId>,
    pub(super) programs: HashMap<String, ProgramId>,
    pub(super) constants: HashMap<String, ConstId>,
}

/// A cursor over tokens.
pub(super) struct Parser<'s> {
    text: &'s str,
    tokens: Vec<Spanned<'s>>,
    at: usize,
    depth: usize,
    pub(super) globals: Globals,
}

pub(super) type Parsed<T> = Result<T, ParseError>;

impl<'s> Parser<'s> {
    /// The current token; `None` at the end and at text that is no token.
    pub(super) fn peek(&self) -> Option<Token<'s>> {
        self.tokens.get(self.at).and_then(|t| t.token.ok())
    }
    /// The token after the current one.
    pub(super) fn peek_second(&self) -> Option<Token<'s>> {
        self.tokens.get(self.at + 1).and_then(|t| t.token.ok())
    }
    pub(super) fn advance(&mut self) {
        self.at += 1;
    }
    pub(super) fn position(&self) -> usize {
        self.at
    }
    /// An error at the current token.
    pub(super) fn error(&self, expected: impl Into<String>) -> ParseError {
        self.error_at(self.at, expected, None)
    }
    /// An error at the current token with the candidate closest to it.
    pub(super) fn error_near(&self, expected: impl Into<String>, candidates: &[&str]) -> ParseError {
        let found = self.found(self.at);
        self.error_at(
            self.at,
            expected,
            nearest(found.as_deref().unwrap_or(""), candidates.iter().copied()),
        )
    }
    fn found(&self, at: usize) -> Option<String> {
        self.tokens.get(at).map(|t| match t.token {
            Ok(
                Token::Ident(s)
                | Token::Value(s)
                | Token::Global(s)
                | Token::Str(s)
                | Token::Int(s)
                | Token::Float(s)
                | Token::Hex(s)
                | Token::Punct(s),
            ) => s.to_owned(),
            Err(s) => s.to_owned(),
        })
    }
    pub(super) fn error_at(
        &self,
        at: usize,
        expected: impl Into<String>,
        nearest: Option<String>,
    ) -> ParseError {
        let offset = self.tokens.get(at).map_or(self.text.len(), |t| t.at);
        let before = &self.text[..offset];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        let found = self.found(at).map_or("the end of the text".to_owned(), |s| {
            let short: String = s.chars().take(40).collect();
            format!("`{short}{}`", if short.len() < s.len() { "…" } else { "" })
        });
        ParseError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            expected: expected.into(),
            found,
            nearest,
        }
    }
    /// Consumes a punctuation mark if it is next.
    pub(super) fn eat(&mut self, mark: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Punct(p)) if p == mark);
        self.at += usize::from(found);
        found
    }
    pub(super) fn expect(&mut self, mark: &str) -> Parsed<()> {
        if self.eat(mark) {
            Ok(())
        } else {
            Err(self.error(format!("`{mark}`")))
        }
    }
    /// Consumes an identifier of this text if it is next.
    pub(super) fn keyword(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Ident(i)) if i == word);
        self.at += usize::from(found);
        found
    }
    pub(super) fn expect_keyword(&mut self, word: &str) -> Parsed<()> {
        if self.keyword(word) {
            Ok(())
        } else {
            Err(self.error_near(format!("`{word}`"), &[word]))
        }
    }
    /// Any identifier.
    pub(super) fn ident(&mut self, expected: &str) -> Parsed<&'s str> {
        match self.peek() {
            Some(Token::Ident(name)) => {
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.error(expected)),
        }
    }
    /// An identifier or a quoted name.
    pub(super) fn bare_name(&mut self, expected: &str) -> Parsed<String> {
        match self.peek() {
            Some(Token::Ident(name)) => {
                self.at += 1;
                Ok(name.to_owned())
            }
            Some(Token::Str(_)) => self.string(),
            _ => Err(self.error(expected)),
        }
    }
    fn unquoted(&mut self, text: &str) -> Parsed<String> {
        let name = name_of(text).ok_or_else(|| self.error("a string with valid escapes"))?;
        self.at += 1;
        Ok(name)
    }
    pub(super) fn string(&mut self) -> Parsed<String> {
        match self.peek() {
            Some(Token::Str(text)) => self.unquoted(text),
            _ => Err(self.error("a string")),
        }
    }
    /// The name after `@`.
    pub(super) fn global_name(&mut self) -> Parsed<String> {
        match self.peek() {
            Some(Token::Global(text)) => self.unquoted(text),
            _ => Err(self.error("a global name such as `@main`")),
        }
    }
    /// The name after `%`.
    pub(super) fn value_name(&mut self) -> Parsed<String> {
        match self.peek() {
            Some(Token::Value(text)) => self.unquoted(text),
            _ => Err(self.error("a value such as `%x`")),
        }
    }
    /// An integer with an optional sign.
    pub(super) fn int(&mut self) -> Parsed<i64> {
        let start = self.at;
        let negative = self.eat("-");
        let Some(Token::Int(digits)) = self.peek() else {
            return Err(self.error("an integer"));
        };
        let magnitude: Option<i128> = digits.parse().ok();
        let value = magnitude.and_then(|m| i64::try_from(if negative { -m } else { m }).ok());
        self.at += 1;
        value.ok_or_else(|| self.error_at(start, "an integer of 64 bits", None))
    }
    /// An unsigned integer of some type.
    pub(super) fn unsigned<T: std::str::FromStr>(&mut self, expected: &str) -> Parsed<T> {
        let value = match self.peek() {
            Some(Token::Int(digits)) => digits.parse().ok(),
            _ => None,
        };
        let value = value.ok_or_else(|| self.error(expected))?;
        self.at += 1;
        Ok(value)
    }
    /// A floating-point number: decimal, `inf`, `nan` or `nan(0xbits)`, with an optional sign.
    pub(super) fn float<F: Float>(&mut self) -> Parsed<F> {
        let negative = self.eat("-");
        let value = match self.peek() {
            Some(Token::Float(digits) | Token::Int(digits)) => F::decimal(digits),
            Some(Token::Ident("inf")) => F::decimal("inf"),
            Some(Token::Ident("nan")) if matches!(self.peek_second(), Some(Token::Punct("("))) => {
                self.at += 2;
                let bits = match self.peek() {
                    Some(Token::Hex(digits)) => {
                        u64::from_str_radix(&digits[2..], 16).ok().and_then(F::nan_bits)
                    }
                    _ => None,
                };
                let bits =
                    bits.ok_or_else(|| self.error("the bits of a NaN, such as `0x7ff8000000000001`"))?;
                self.at += 1;
                self.expect(")")?;
                return Ok(bits);
            }
            Some(Token::Ident("nan")) => F::decimal("NaN"),
            _ => None,
        };
        let value = value.ok_or_else(|| self.error("a floating-point number"))?;
        self.at += 1;
        Ok(if negative { value.negated() } else { value })
    }
    pub(super) fn dtype(&mut self) -> Parsed<DType> {
        let names = DType::ALL.map(DType::name);
        let found = match self.peek() {
            Some(Token::Ident(name)) => DType::ALL.into_iter().find(|d| d.name() == name),
            _ => None,
        };
        let dtype = found.ok_or_else(|| self.error_near("an element type", &names))?;
        self.at += 1;
        Ok(dtype)
    }
    /// A comma-separated list up to a closing mark, which is consumed. A trailing comma is allowed.
    pub(super) fn list<T>(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(item(self)?);
            if !self.eat(",") {
                if self.eat(close) {
                    break;
                }
                return Err(self.error(format!("`,` or `{close}`")));
            }
        }
        Ok(items)
    }
    /// Runs a parser one level deeper.
    pub(super) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.error(format!("at most {MAX_DEPTH} levels of nesting")));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Finds the definitions at the top level, by brace depth.
    fn collect_globals(&mut self) -> Parsed<()> {
        let mut depth = 0usize;
        for at in 0..self.tokens.len() {
            match self.tokens[at].token {
                Ok(Token::Punct("{")) => depth += 1,
                Ok(Token::Punct("}")) => depth = depth.saturating_sub(1),
                Ok(Token::Ident(word @ ("func" | "program" | "constant"))) if depth == 0 => {
                    let Some(Spanned {
                        token: Ok(Token::Global(text)),
                        ..
                    }) = self.tokens.get(at + 1)
                    else {
                        continue;
                    };
                    let Some(name) = name_of(text) else {
                        continue;
                    };
                    let g = &mut self.globals;
                    let previous = match word {
                        "func" => {
                            let id = FuncId::from_u32(g.functions.len() as u32);
                            g.functions.insert(name, id).is_some()
                        }
                        "program" => {
                            let id = ProgramId::from_u32(g.programs.len() as u32);
                            g.programs.insert(name, id).is_some()
                        }
                        _ => {
                            let id = ConstId::from_u32(g.constants.len() as u32);
                            g.constants.insert(name, id).is_some()
                        }
                    };
                    if previous {
                        return Err(self.error_at(at + 1, "a name not yet defined", None));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Looks a name up that has just been consumed.
    pub(super) fn resolve<T: Copy>(
        &self,
        name: &str,
        known: &HashMap<String, T>,
        expected: &str,
    ) -> Parsed<T> {
        known.get(name).copied().ok_or_else(|| {
            let mut candidates: Vec<&str> = known.keys().map(String::as_str).collect();
            candidates.sort_unstable();
            self.error_at(self.at.saturating_sub(1), expected, nearest(name, candidates))
        })
    }

    /// After `constant`: `@name: f32[2, 3] = hex "…"` or `= generate(seed 1, key "…", uniform(0.0, 1.0))`.
    fn constant(&mut self) -> Parsed<Constant> {
        let name = self.global_name()?;
        self.expect(":")?;
        let dtype = self.dtype()?;
        self.expect("[")?;
        let shape = self.list("]", |p| p.unsigned("an extent"))?;
        self.expect("=")?;
        let data = if self.keyword("hex") {
            let at = self.at;
            let digits = self.string()?;
            ConstantData::Inline(
                bytes_of(&digits)
                    .ok_or_else(|| self.error_at(at, "an even number of hexadecimal digits", None))?
                    .into(),
            )
        } else if self.keyword("generate") {
            self.expect("(")?;
            self.expect_keyword("seed")?;
            let seed = self.unsigned("a seed of 64 bits")?;
            self.expect(",")?;
            self.expect_keyword("key")?;
            let key = self.string()?;
            self.expect(",")?;
            let distribution = self.distribution()?;
            self.expect(")")?;
            ConstantData::Generated(Generator {
                seed,
                key,
                distribution,
            })
        } else {
            return Err(self.error_near("`hex` or `generate`", &["hex", "generate"]));
        };
        Ok(Constant {
            name,
            shape,
            dtype,
            data,
        })
    }

    fn distribution(&mut self) -> Parsed<Distribution> {
        if self.keyword("uniform") {
            self.expect("(")?;
            let low = self.float()?;
            self.expect(",")?;
            let high = self.float()?;
            self.expect(")")?;
            Ok(Distribution::Uniform { low, high })
        } else if self.keyword("integers") {
            self.expect("(")?;
            let low = self.int()?;
            self.expect(",")?;
            let high = self.int()?;
            self.expect(")")?;
            Ok(Distribution::Integers { low, high })
        } else {
            Err(self.error_near("`uniform` or `integers`", &["uniform", "integers"]))
        }
    }
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let nibbles: Option<Vec<u8>> = digits.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect();
    let nibbles = nibbles.filter(|n| n.len() % 2 == 0)?;
    Some(
        nibbles
            .chunks_exact(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect(),
    )
}

/// What the parser needs of `f32` and `f64`. Each parses the decimal text itself, so nothing is rounded twice.
pub(super) trait Float: Sized {
    fn decimal(text: &str) -> Option<Self>;
    fn nan_bits(bits: u64) -> Option<Self>;
    fn negated(self) -> Self;
}

impl Float for f64 {
    fn decimal(text: &str) -> Option<f64> {
        text.parse().ok()
    }
    fn nan_bits(bits: u64) -> Option<f64> {
        Some(f64::from_bits(bits)).filter(|v| v.is_nan())
    }
    fn negated(self) -> f64 {
        -self
    }
}

impl Float for f32 {
    fn decimal(text: &str) -> Option<f32> {
        text.parse().ok()
    }
    fn nan_bits(bits: u64) -> Option<f32> {
        u32::try_from(bits)
            .ok()
            .map(f32::from_bits)
            .filter(|v| v.is_nan())
    }
    fn negated(self) -> f32 {
        -self
    }
}
