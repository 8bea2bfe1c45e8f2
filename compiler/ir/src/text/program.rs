//! Parses tensor programs.

use super::error::nearest;
use super::lex::Token;
use super::parse::{Parsed, Parser};
use crate::annotation::DType;
use crate::index::Arena;
use crate::program::{
    Access, BinaryOp, Buffer, BufferId, BufferRole, Combiner, Loop, LoopKind, PatternKind, Scalar, Stage,
    StageBody, TensorProgram, UnaryOp,
};
use crate::sym::SymVar;
use std::collections::HashMap;

type Buffers = HashMap<String, BufferId>;

impl Parser<'_> {
    /// After `program`.
    pub(super) fn program(&mut self) -> Parsed<TensorProgram> {
        let name = self.global_name()?;
        self.expect("(")?;
        let sym_params = self.list(")", |p| Ok(SymVar::new(p.bare_name("a symbolic parameter")?)))?;
        let kind = if self.keyword("kind") {
            Some(self.pattern_kind()?)
        } else {
            None
        };
        self.expect("{")?;
        let (mut buffers, mut names) = (Arena::new(), Buffers::new());
        while let Some(role) = self.role() {
            let name = self.bare_name("a buffer name")?;
            let at = self.position() - 1;
            self.expect(":")?;
            let dtype = self.dtype()?;
            self.expect("[")?;
            let shape = self.exprs("]")?;
            let id = buffers.push(Buffer {
                name: name.clone(),
                shape,
                dtype,
                role,
            });
            if names.insert(name, id).is_some() {
                return Err(self.error_at(at, "a buffer name not yet used in this program", None));
            }
        }
        let mut stages = Vec::new();
        while self.keyword("for") {
            stages.push(self.stage(&names)?);
        }
        if !self.eat("}") {
            let words = ["input", "output", "workspace", "for"];
            return Err(self.error_near(
                "a buffer (`input`, `output`, `workspace`), a stage (`for`) or `}`",
                &words,
            ));
        }
        Ok(TensorProgram {
            name,
            sym_params,
            buffers,
            stages,
            kind,
        })
    }

    fn pattern_kind(&mut self) -> Parsed<PatternKind> {
        let names = PatternKind::ALL.map(PatternKind::name);
        let found = match self.peek() {
            Some(Token::Ident(name)) => PatternKind::ALL.into_iter().find(|k| k.name() == name),
            _ => None,
        };
        let kind = found.ok_or_else(|| self.error_near("a pattern kind", &names))?;
        self.advance();
        Ok(kind)
    }

    fn role(&mut self) -> Option<BufferRole> {
        let role = match self.peek()? {
            Token::Ident("input") => BufferRole::Input,
            Token::Ident("output") => BufferRole::Output,
            Token::Ident("workspace") => BufferRole::Workspace,
            _ => return None,
        };
        self.advance();
        Some(role)
    }

    fn buffer(&mut self, buffers: &Buffers) -> Parsed<BufferId> {
        let name = self.bare_name("a buffer")?;
        self.resolve(&name, buffers, "a buffer of this program")
    }

    /// After `for`.
    fn stage(&mut self, buffers: &Buffers) -> Parsed<Stage> {
        self.expect("(")?;
        let loops = self.list(")", |p| {
            let names_kind = matches!(p.peek(), Some(Token::Ident("reduce")))
                && !matches!(p.peek_second(), Some(Token::Punct(":")));
            let kind = if names_kind {
                LoopKind::Reduce
            } else {
                LoopKind::Spatial
            };
            if names_kind {
                p.advance();
            }
            let var = SymVar::new(p.bare_name("a loop variable")?);
            p.expect(":")?;
            Ok(Loop {
                var,
                extent: p.expr()?,
                kind,
            })
        })?;
        self.expect("{")?;
        let output = self.buffer(buffers)?;
        self.expect("[")?;
        let index = self.exprs("]")?;
        self.expect("=")?;
        let calls = matches!(self.peek_second(), Some(Token::Punct("(")));
        let body = match self.peek() {
            Some(Token::Ident("reduce")) if !matches!(self.peek_second(), Some(Token::Punct("["))) => {
                self.advance();
                let combiner = self.combiner()?;
                self.expect("(")?;
                let value = self.scalar(buffers)?;
                self.expect(")")?;
                StageBody::Reduce {
                    combiner,
                    value,
                    epilogue: self.epilogue(buffers)?,
                }
            }
            Some(Token::Ident("contract")) if calls => {
                self.advance();
                self.expect("(")?;
                let a = self.access(buffers)?;
                self.expect(",")?;
                let b = self.access(buffers)?;
                self.expect(")")?;
                StageBody::Contract {
                    a,
                    b,
                    epilogue: self.epilogue(buffers)?,
                }
            }
            _ => StageBody::Map(self.scalar(buffers)?),
        };
        self.expect("}")?;
        Ok(Stage {
            loops,
            output,
            index,
            body,
        })
    }

    fn combiner(&mut self) -> Parsed<Combiner> {
        let names = Combiner::ALL.map(Combiner::name);
        let found = match self.peek() {
            Some(Token::Ident(name)) => Combiner::ALL.into_iter().find(|c| c.name() == name),
            _ => None,
        };
        let combiner = found.ok_or_else(|| self.error_near("`sum`, `max`, `min` or `prod`", &names))?;
        self.advance();
        Ok(combiner)
    }

    /// `then …`, or nothing for the reduced value itself.
    fn epilogue(&mut self, buffers: &Buffers) -> Parsed<Scalar> {
        if self.keyword("then") {
            self.scalar(buffers)
        } else {
            Ok(Scalar::Reduced)
        }
    }

    fn access(&mut self, buffers: &Buffers) -> Parsed<Access> {
        let buffer = self.buffer(buffers)?;
        self.expect("[")?;
        Ok(Access {
            buffer,
            index: self.exprs("]")?,
        })
    }

    fn scalar(&mut self, buffers: &Buffers) -> Parsed<Scalar> {
        self.nested(|p| {
            if matches!(p.peek_second(), Some(Token::Punct("["))) {
                return Ok(Scalar::Load(p.access(buffers)?));
            }
            if !matches!(p.peek_second(), Some(Token::Punct("("))) {
                if p.keyword("reduced") {
                    return Ok(Scalar::Reduced);
                }
                return Err(p.error_near("a scalar expression", &["reduced"]));
            }
            let at = p.position();
            let function = p.ident("a scalar expression")?;
            p.expect("(")?;
            let comma = |p: &mut Self| p.expect(",");
            let boxed = |p: &mut Self| p.scalar(buffers).map(Box::new);
            let scalar = if let Some(dtype) = DType::ALL.into_iter().find(|d| d.name() == function) {
                Scalar::Const(p.float()?, dtype)
            } else if let Some(op) = UnaryOp::ALL.into_iter().find(|o| o.name() == function) {
                Scalar::Unary(op, boxed(p)?)
            } else if let Some(op) = BinaryOp::ALL.into_iter().find(|o| o.name() == function) {
                let a = boxed(p)?;
                comma(p)?;
                Scalar::Binary(op, a, boxed(p)?)
            } else {
                match function {
                    "index" => Scalar::Index(p.expr()?),
                    "cast" => {
                        let to = p.dtype()?;
                        comma(p)?;
                        Scalar::Cast(to, boxed(p)?)
                    }
                    "select" => {
                        let condition = boxed(p)?;
                        comma(p)?;
                        let a = boxed(p)?;
                        comma(p)?;
                        Scalar::Select(condition, a, boxed(p)?)
                    }
                    "gather" => {
                        let buffer = p.buffer(buffers)?;
                        let mut index = Vec::new();
                        while p.eat(",") {
                            index.push(p.scalar(buffers)?);
                        }
                        Scalar::Gather { buffer, index }
                    }
                    _ => {
                        let mut names = vec!["index", "cast", "select", "gather"];
                        names.extend(UnaryOp::ALL.map(UnaryOp::name));
                        names.extend(BinaryOp::ALL.map(BinaryOp::name));
                        names.extend(DType::ALL.map(DType::name));
                        return Err(p.error_at(at, "a scalar function", nearest(function, names)));
                    }
                }
            };
            p.expect(")")?;
            Ok(scalar)
        })
    }
}
