//! Loops whose parts are written with the helpers of a rule.

use std::cell::RefCell;

use tpud_stablehlo::{BuildError, Builder, Monoid, Value};

use crate::context::LoweringContext;
use crate::error::RuleError;

type Result<T> = std::result::Result<T, RuleError>;

impl LoweringContext<'_> {
    /// `stablehlo.while`: `busy` and `body` get the carried values. The loop runs as long as `busy`, a bool of any
    /// shape, is true anywhere. Values from outside must be carried; constants may be made inside.
    pub(crate) fn repeat_while(
        &mut self,
        inits: &[Value],
        busy: impl FnOnce(&mut Self, &[Value]) -> Result<Value>,
        body: impl FnOnce(&mut Self, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        let mut builder = std::mem::take(&mut self.b);
        let (context, failure) = (RefCell::new(&mut *self), RefCell::new(None));
        let out = builder.while_loop(
            inits,
            |b, args| {
                inside(&context, &failure, b, |ctx| {
                    let busy = busy(ctx, args)?;
                    let all: Vec<i64> = (0..ctx.b.rank(busy) as i64).collect();
                    Ok(ctx.b.reduce_monoid(busy, Monoid::Or, &all)?)
                })
            },
            |b, args| inside(&context, &failure, b, |ctx| body(ctx, args)),
        );
        let failure = failure.into_inner();
        self.b = builder;
        match failure {
            Some(error) => Err(error),
            None => Ok(out?),
        }
    }
}

/// Runs a part of a rule with the builder of a region.
fn inside<'g, T>(
    context: &RefCell<&mut LoweringContext<'g>>,
    failure: &RefCell<Option<RuleError>>,
    builder: &mut Builder,
    part: impl FnOnce(&mut LoweringContext<'g>) -> Result<T>,
) -> std::result::Result<T, BuildError> {
    let mut ctx = context.borrow_mut();
    std::mem::swap(&mut ctx.b, builder);
    let result = part(&mut ctx);
    std::mem::swap(&mut ctx.b, builder);
    result.map_err(|error| {
        failure.replace(Some(error));
        BuildError { op: "stablehlo.while", message: "a part of the loop failed".into() }
    })
}
