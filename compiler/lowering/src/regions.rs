//! Ops whose regions are written with the helpers of a rule.
//!
//! The builder hands itself to the closures that build regions, and a rule works on a context that owns the builder. So
//! the context gives its builder away while such an op is built, and has it back inside of each region.

use std::cell::RefCell;
use std::mem;

use tpud_stablehlo::{BuildError, Builder, Monoid, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;

type Result<T> = std::result::Result<T, RuleError>;

/// The context, while its builder is away.
pub(crate) struct Regions<'c, 'g> {
    context: RefCell<&'c mut LoweringContext<'g>>,
    failure: RefCell<Option<RuleError>>,
}

impl<'g> Regions<'_, 'g> {
    /// Builds a part of the region that is open with the context. An error is kept, for the builder has its own kind.
    pub(crate) fn run<T>(
        &self,
        b: &mut Builder,
        part: impl FnOnce(&mut LoweringContext<'g>) -> Result<T>,
    ) -> tpud_stablehlo::Result<T> {
        let ctx = &mut **self.context.borrow_mut();
        mem::swap(&mut ctx.b, b);
        let outcome = part(ctx);
        mem::swap(&mut ctx.b, b);
        outcome.map_err(|error| {
            *self.failure.borrow_mut() = Some(error);
            BuildError { op: "region", message: "a part of a rule failed".into() }
        })
    }
}

impl<'g> LoweringContext<'g> {
    /// Builds an op with regions.
    pub(crate) fn with_regions<T>(
        &mut self,
        build: impl FnOnce(&mut Builder, &Regions<'_, 'g>) -> tpud_stablehlo::Result<T>,
    ) -> Result<T> {
        let mut builder = mem::take(&mut self.b);
        let regions = Regions { context: RefCell::new(&mut *self), failure: RefCell::new(None) };
        let outcome = build(&mut builder, &regions);
        let failure = regions.failure.into_inner();
        self.b = builder;
        match failure {
            Some(error) => Err(error),
            None => Ok(outcome?),
        }
    }

    /// `stablehlo.while`: `busy` and `body` get the carried values. The loop runs as long as `busy`, a bool of any
    /// shape, is true anywhere. Values from outside must be carried; constants may be made inside.
    pub(crate) fn repeat_while(
        &mut self,
        inits: &[Value],
        busy: impl FnOnce(&mut Self, &[Value]) -> Result<Value>,
        body: impl FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        self.with_regions(|b, regions| {
            b.while_loop(
                inits,
                |b, args| {
                    regions.run(b, |ctx| {
                        let busy = busy(ctx, args)?;
                        let all: Vec<i64> = (0..ctx.b.rank(busy) as i64).collect();
                        Ok(ctx.b.reduce_monoid(busy, Monoid::Or, &all)?)
                    })
                },
                |b, args| regions.run(b, |ctx| body(ctx, args)),
            )
        })
    }
}
