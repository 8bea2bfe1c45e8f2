//! Parses graph functions.

use super::error::nearest;
use super::lex::Token;
use super::parse::{Parsed, Parser};
use crate::annotation::{Annotation, DType};
use crate::graph::{
    Attr, Attrs, Binding, Block, BlockKind, Callee, Expr, GraphFunction, SymDecl, Value, ValueId,
};
use crate::index::Arena;
use crate::op;
use crate::sym::{SymExpr, SymVar};
use std::collections::HashMap;

/// Words that begin an expression other than an operator call.
const FORMS: [&str; 11] = [
    "call",
    "call_tir",
    "call_dps_library",
    "constant",
    "shape",
    "match_cast",
    "view",
    "alloc_storage",
    "alloc_tensor",
    "invoke",
    "kill",
];

/// The values of a function as they are met.
#[derive(Default)]
struct Scope {
    values: Arena<ValueId, (String, Option<Annotation>)>,
    /// Named, whether defined yet or only listed.
    ids: HashMap<String, ValueId>,
    /// Defined so far.
    defined: HashMap<String, ValueId>,
}

impl Parser<'_> {
    /// After `func`.
    pub(super) fn function(&mut self) -> Parsed<GraphFunction> {
        let name = self.global_name()?;
        self.expect("(")?;
        // Parameters are kept aside: a `values` line may number other values before them.
        let params = self.list(")", |p| {
            let at = p.position();
            let name = p.value_name()?;
            p.expect(":")?;
            Ok((at, name, p.annotation()?))
        })?;
        let syms = if self.keyword("where") {
            self.sym_declarations()?
        } else {
            Vec::new()
        };
        self.expect("{")?;
        let mut scope = Scope::default();
        if self.keyword("values") {
            self.listed_values(&mut scope)?;
        }
        let params = params
            .into_iter()
            .map(|(at, name, annotation)| self.define(&mut scope, at, name, annotation))
            .collect::<Parsed<Vec<_>>>()?;
        let mut blocks = Vec::new();
        loop {
            let kind = if self.keyword("dataflow") {
                BlockKind::Dataflow
            } else if self.keyword("plain") {
                BlockKind::Plain
            } else {
                break;
            };
            self.expect("{")?;
            let mut bindings = Vec::new();
            while !self.eat("}") {
                bindings.push(self.binding(&mut scope)?);
            }
            blocks.push(Block { kind, bindings });
        }
        if !self.keyword("return") {
            return Err(self.error_near(
                "`dataflow`, `plain` or `return`",
                &["dataflow", "plain", "return"],
            ));
        }
        let result = self.value(&scope)?;
        self.expect("}")?;
        let mut values = Arena::new();
        for (_, (name, annotation)) in scope.values.iter() {
            let annotation = annotation.clone().ok_or_else(|| {
                self.error_at(
                    self.position() - 1,
                    format!("a definition of the listed value `%{name}`"),
                    None,
                )
            })?;
            values.push(Value {
                name: name.clone(),
                annotation,
            });
        }
        Ok(GraphFunction {
            name,
            syms,
            params,
            values,
            blocks,
            result,
        })
    }

    /// After `where`: `n in 1..=64, m in 1..`.
    fn sym_declarations(&mut self) -> Parsed<Vec<SymDecl>> {
        let mut syms = Vec::new();
        loop {
            let var = SymVar::new(self.bare_name("a symbolic variable")?);
            self.expect_keyword("in")?;
            let low = self.int()?;
            let high = if self.eat("..=") {
                Some(self.int()?)
            } else {
                self.expect("..")?;
                None
            };
            syms.push(SymDecl { var, low, high });
            if !self.eat(",") {
                return Ok(syms);
            }
        }
    }

    /// After `values`: `%b, %a, %unused: f32[4]`.
    fn listed_values(&mut self, scope: &mut Scope) -> Parsed<()> {
        loop {
            let at = self.position();
            let name = self.value_name()?;
            let annotation = if self.eat(":") {
                Some(self.annotation()?)
            } else {
                None
            };
            let id = scope.values.push((name.clone(), annotation));
            if scope.ids.insert(name, id).is_some() {
                return Err(self.error_at(at, "a value not yet listed", None));
            }
            if !self.eat(",") {
                return Ok(());
            }
        }
    }

    fn define(&self, scope: &mut Scope, at: usize, name: String, annotation: Annotation) -> Parsed<ValueId> {
        let id = match scope.ids.get(&name) {
            Some(id) => *id,
            None => {
                let id = scope.values.push((name.clone(), None));
                scope.ids.insert(name.clone(), id);
                id
            }
        };
        if scope.values[id].1.replace(annotation).is_some() {
            return Err(self.error_at(at, "a name not yet used in this function", None));
        }
        scope.defined.insert(name, id);
        Ok(id)
    }

    /// A value that has been defined.
    fn value(&mut self, scope: &Scope) -> Parsed<ValueId> {
        let name = self.value_name()?;
        self.resolve(&name, &scope.defined, "a value defined above")
    }

    fn values(&mut self, scope: &Scope) -> Parsed<Vec<ValueId>> {
        self.expect("(")?;
        self.list(")", |p| p.value(scope))
    }

    fn binding(&mut self, scope: &mut Scope) -> Parsed<Binding> {
        let at = self.position();
        if !matches!(self.peek(), Some(Token::Value(_))) {
            return Err(self.error("a binding such as `%y: f32[n] = …`, or `}`"));
        }
        let name = self.value_name()?;
        self.expect(":")?;
        let annotation = self.annotation()?;
        self.expect("=")?;
        let expr = self.binding_expr(scope)?;
        Ok(Binding {
            value: self.define(scope, at, name, annotation)?,
            expr,
        })
    }

    fn binding_expr(&mut self, scope: &Scope) -> Parsed<Expr> {
        match self.peek() {
            Some(Token::Punct("(")) => return Ok(Expr::Tuple(self.values(scope)?)),
            Some(Token::Value(_)) => {
                let tuple = self.value(scope)?;
                self.expect("[")?;
                let index = self.unsigned("a tuple index")?;
                self.expect("]")?;
                return Ok(Expr::TupleGet(tuple, index));
            }
            _ => {}
        }
        let at = self.position();
        let word = self.ident("an expression")?;
        match word {
            "call" => {
                let name = self.global_name()?;
                let func = self.resolve(&name, &self.globals.functions, "a function of this module")?;
                Ok(Expr::CallGraph {
                    func,
                    args: self.values(scope)?,
                })
            }
            "call_tir" => {
                let name = self.global_name()?;
                let program = self.resolve(&name, &self.globals.programs, "a program of this module")?;
                let args = self.values(scope)?;
                Ok(Expr::CallTir {
                    program,
                    args,
                    sym_args: self.sym_args()?,
                })
            }
            "call_dps_library" => {
                let routine = self.string()?;
                let args = self.values(scope)?;
                let attrs = self.attrs()?;
                Ok(Expr::CallDpsLibrary {
                    routine,
                    args,
                    attrs,
                    sym_args: self.sym_args()?,
                })
            }
            "constant" => {
                let name = self.global_name()?;
                Ok(Expr::Constant(self.resolve(
                    &name,
                    &self.globals.constants,
                    "a constant of this module",
                )?))
            }
            "shape" => {
                self.expect("(")?;
                Ok(Expr::Shape(self.exprs(")")?))
            }
            "match_cast" => {
                self.expect("(")?;
                let value = self.value(scope)?;
                self.expect(",")?;
                let annotation = self.annotation()?;
                self.expect(")")?;
                Ok(Expr::MatchCast(value, annotation))
            }
            "view" => Ok(Expr::View(self.parenthesised(scope)?)),
            "kill" => Ok(Expr::Kill(self.parenthesised(scope)?)),
            "alloc_storage" => {
                self.expect("(")?;
                let bytes = self.expr()?;
                self.expect(")")?;
                Ok(Expr::AllocStorage { bytes })
            }
            "alloc_tensor" => {
                self.expect("(")?;
                let storage = self.value(scope)?;
                self.expect(",")?;
                let offset = self.expr()?;
                self.expect(")")?;
                Ok(Expr::AllocTensor { storage, offset })
            }
            "invoke" => self.invoke(scope),
            _ => {
                let op = op::by_name(word).ok_or_else(|| {
                    let names = op::all().iter().map(|o| o.name()).chain(FORMS);
                    self.error_at(at, "an operator", nearest(word, names))
                })?;
                let args = self.values(scope)?;
                let attrs = self.attrs()?;
                let implementation = if self.keyword("via") {
                    Some(self.string()?)
                } else {
                    None
                };
                Ok(Expr::Op {
                    op,
                    args,
                    attrs,
                    implementation,
                })
            }
        }
    }

    fn parenthesised(&mut self, scope: &Scope) -> Parsed<ValueId> {
        self.expect("(")?;
        let value = self.value(scope)?;
        self.expect(")")?;
        Ok(value)
    }

    /// After `invoke`.
    fn invoke(&mut self, scope: &Scope) -> Parsed<Expr> {
        let library = match self.peek() {
            Some(Token::Str(_)) => Some(self.string()?),
            _ => None,
        };
        let (callee, args) = match library {
            Some(routine) => {
                let args = self.values(scope)?;
                (Callee::Library(routine, self.attrs()?), args)
            }
            None => {
                let name = self.global_name()?;
                let program = self.resolve(&name, &self.globals.programs, "a program of this module")?;
                (Callee::Program(program), self.values(scope)?)
            }
        };
        self.expect("->")?;
        let outs = self.values(scope)?;
        Ok(Expr::Invoke {
            callee,
            args,
            outs,
            sym_args: self.sym_args()?,
        })
    }

    fn sym_args(&mut self) -> Parsed<Vec<SymExpr>> {
        if !self.keyword("syms") {
            return Ok(Vec::new());
        }
        self.expect("(")?;
        self.exprs(")")
    }

    /// `{key: value, …}`, or nothing.
    fn attrs(&mut self) -> Parsed<Attrs> {
        let mut attrs = Attrs::new();
        if !self.eat("{") {
            return Ok(attrs);
        }
        let pairs = self.list("}", |p| {
            let at = p.position();
            let key = p.bare_name("an attribute name")?;
            p.expect(":")?;
            Ok((at, key, p.attr()?))
        })?;
        for (at, key, value) in pairs {
            if attrs.insert(key, value).is_some() {
                return Err(self.error_at(at, "an attribute not yet given", None));
            }
        }
        Ok(attrs)
    }

    fn attr(&mut self) -> Parsed<Attr> {
        let second = self.peek_second();
        match self.peek() {
            Some(Token::Punct("[")) => {
                self.advance();
                Ok(Attr::Ints(self.list("]", Self::int)?))
            }
            Some(Token::Str(_)) => Ok(Attr::Str(self.string()?)),
            Some(Token::Int(_)) => Ok(Attr::Int(self.int()?)),
            Some(Token::Punct("-")) if matches!(second, Some(Token::Int(_))) => Ok(Attr::Int(self.int()?)),
            Some(Token::Float(_) | Token::Punct("-") | Token::Ident("inf" | "nan")) => {
                Ok(Attr::Float(self.float()?))
            }
            Some(Token::Ident(word @ ("true" | "false"))) => {
                self.advance();
                Ok(Attr::Bool(word == "true"))
            }
            Some(Token::Ident("shape")) => {
                self.advance();
                self.expect("(")?;
                Ok(Attr::Shape(self.exprs(")")?))
            }
            Some(Token::Ident("layout")) => {
                self.advance();
                self.expect("(")?;
                Ok(Attr::Layout(self.layout()?))
            }
            _ => {
                let mut words = vec!["true", "false", "shape", "layout", "inf", "nan"];
                words.extend(DType::ALL.map(DType::name));
                Ok(Attr::DType(
                    self.dtype()
                        .map_err(|_| self.error_near("an attribute value", &words))?,
                ))
            }
        }
    }
}
