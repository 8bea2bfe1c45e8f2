//! Parses symbolic expressions, layouts and annotations.

use super::lex::Token;
use super::parse::{Parsed, Parser};
use crate::annotation::{Annotation, DType, ShapeInfo, TensorInfo};
use crate::layout::{Layout, MemorySpace, Split};
use crate::sym::SymExpr;

/// The largest number of monomials that the product of two expressions may have before it is combined. Text written by people
/// stays far below; the limit keeps hostile text from growing without bound.
const MAX_PRODUCT: usize = 4096;

impl Parser<'_> {
    /// A sum of products: `n*4 + (m // 2) - 1`.
    pub(super) fn expr(&mut self) -> Parsed<SymExpr> {
        self.nested(|p| {
            let mut sum = SymExpr::zero();
            let mut negative = p.eat("-");
            loop {
                let term = p.product(negative)?;
                sum = sum + term;
                negative = if p.eat("+") {
                    false
                } else if p.eat("-") {
                    true
                } else {
                    return Ok(sum);
                };
            }
        })
    }

    /// A product, negated if asked; integer factors are multiplied first, so that every 64-bit coefficient can be written.
    fn product(&mut self, negative: bool) -> Parsed<SymExpr> {
        let start = self.position();
        let mut coefficient: i128 = if negative { -1 } else { 1 };
        let mut product = SymExpr::constant(1);
        loop {
            if let Some(Token::Int(digits)) = self.peek() {
                let value = digits
                    .parse::<i128>()
                    .ok()
                    .and_then(|v| coefficient.checked_mul(v));
                coefficient = value.ok_or_else(|| self.error("an integer of 64 bits"))?;
                self.advance();
            } else {
                let factor = self.factor()?;
                if product.terms().count().saturating_mul(factor.terms().count()) > MAX_PRODUCT {
                    return Err(self.error_at(
                        start,
                        format!("a product of at most {MAX_PRODUCT} monomials"),
                        None,
                    ));
                }
                product = product * factor;
            }
            if !self.eat("*") {
                break;
            }
        }
        let coefficient =
            i64::try_from(coefficient).map_err(|_| self.error_at(start, "a coefficient of 64 bits", None))?;
        Ok(product * SymExpr::constant(coefficient))
    }

    /// A variable, `min(a, b)`, `max(a, b)`, `(e)`, `(e // d)` or `(e % d)`.
    fn factor(&mut self) -> Parsed<SymExpr> {
        if self.eat("(") {
            let mut e = self.expr()?;
            let is_quotient = self.eat("//");
            if is_quotient || self.eat("%") {
                let at = self.position();
                let divisor = self.int()?;
                if divisor < 1 {
                    return Err(self.error_at(at, "a positive divisor", None));
                }
                e = if is_quotient {
                    e.floor_div(divisor)
                } else {
                    e.modulo(divisor)
                };
            }
            self.expect(")")?;
            return Ok(e);
        }
        let calls = matches!(self.peek_second(), Some(Token::Punct("(")));
        match self.peek() {
            Some(Token::Ident(function @ ("min" | "max"))) if calls => {
                self.advance();
                self.expect("(")?;
                let a = self.expr()?;
                self.expect(",")?;
                let b = self.expr()?;
                self.expect(")")?;
                Ok(if function == "min" {
                    a.minimum(&b)
                } else {
                    a.maximum(&b)
                })
            }
            Some(Token::Ident(_) | Token::Str(_)) => Ok(SymExpr::named(&self.bare_name("a variable")?)),
            _ => Err(self.error("an integer expression")),
        }
    }

    /// Comma-separated expressions up to a closing mark.
    pub(super) fn exprs(&mut self, close: &str) -> Parsed<Vec<SymExpr>> {
        self.list(close, Self::expr)
    }

    /// After the opening mark: dimensions, `rank n`, or `?`.
    fn shape_info(&mut self, close: &str) -> Parsed<ShapeInfo> {
        if self.eat("?") {
            self.expect(close)?;
            return Ok(ShapeInfo::Unknown);
        }
        if matches!(
            (self.peek(), self.peek_second()),
            (Some(Token::Ident("rank")), Some(Token::Int(_)))
        ) {
            self.advance();
            let rank = self.unsigned("a rank")?;
            self.expect(close)?;
            return Ok(ShapeInfo::Rank(rank));
        }
        Ok(ShapeInfo::Known(self.exprs(close)?))
    }

    /// After `(`: `0,2,3,1:16)@p1@onchip`.
    pub(super) fn layout(&mut self) -> Parsed<Layout> {
        let start = self.position();
        let splits = self.list(")", |p| {
            let axis = p.unsigned("an axis")?;
            let factor = if p.eat(":") {
                Some(p.unsigned("a block factor")?)
            } else {
                None
            };
            Ok(Split { axis, factor })
        })?;
        let rank = splits.iter().filter(|s| s.factor.is_none()).count();
        let layout = Layout::new(rank, splits)
            .map_err(|e| self.error_at(start, format!("a valid layout ({e})"), None))?;
        let (mut partition, mut space) = (None, MemorySpace::Global);
        while let Some(Token::Global(text)) = self.peek() {
            match text
                .strip_prefix("@p")
                .and_then(|digits| digits.parse::<u8>().ok())
            {
                Some(axis) => partition = Some(axis),
                None if text == "@onchip" => space = MemorySpace::OnChip,
                None => {
                    return Err(self.error_near("`@onchip` or a partition axis such as `@p1`", &["@onchip"]));
                }
            }
            self.advance();
        }
        Ok(layout.with_partition(partition).with_space(space))
    }

    /// An annotation.
    pub(super) fn annotation(&mut self) -> Parsed<Annotation> {
        self.nested(|p| {
            if p.eat("(") {
                return Ok(Annotation::Tuple(p.list(")", Self::annotation)?));
            }
            if p.keyword("object") {
                return Ok(Annotation::Object);
            }
            if p.keyword("shape") {
                p.expect("(")?;
                return Ok(Annotation::Shape(p.shape_info(")")?));
            }
            if p.keyword("fn") {
                p.expect("(")?;
                let params = p.list(")", Self::annotation)?;
                p.expect("->")?;
                return Ok(Annotation::Callable(params, Box::new(p.annotation()?)));
            }
            let dtype = if p.keyword("tensor") {
                None
            } else {
                let mut names = vec!["tensor", "shape", "object", "fn"];
                names.extend(DType::ALL.map(DType::name));
                Some(p.dtype().map_err(|_| p.error_near("an annotation", &names))?)
            };
            p.expect("[")?;
            let shape = p.shape_info("]")?;
            let layout = if p.eat("@") {
                p.expect("(")?;
                Some(p.layout()?)
            } else {
                None
            };
            Ok(Annotation::Tensor(TensorInfo { shape, dtype, layout }))
        })
    }
}
