//! Elementwise ops: operands of one shape, results of that shape.

use crate::{Attr, BuildError, Builder, ElementType, Result, TensorType, Value};

/// A binary op whose operands and result have one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Max,
    Min,
    Pow,
    Atan2,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRightArithmetic,
    ShiftRightLogical,
}

impl Binary {
    fn name(self) -> &'static str {
        match self {
            Self::Add => "stablehlo.add",
            Self::Sub => "stablehlo.subtract",
            Self::Mul => "stablehlo.multiply",
            Self::Div => "stablehlo.divide",
            Self::Rem => "stablehlo.remainder",
            Self::Max => "stablehlo.maximum",
            Self::Min => "stablehlo.minimum",
            Self::Pow => "stablehlo.power",
            Self::Atan2 => "stablehlo.atan2",
            Self::And => "stablehlo.and",
            Self::Or => "stablehlo.or",
            Self::Xor => "stablehlo.xor",
            Self::ShiftLeft => "stablehlo.shift_left",
            Self::ShiftRightArithmetic => "stablehlo.shift_right_arithmetic",
            Self::ShiftRightLogical => "stablehlo.shift_right_logical",
        }
    }

    fn accepts(self, element: ElementType) -> bool {
        match self {
            Self::And | Self::Or | Self::Xor => element == ElementType::Bool || element.is_integer(),
            Self::ShiftLeft | Self::ShiftRightArithmetic | Self::ShiftRightLogical => element.is_integer(),
            Self::Add | Self::Mul | Self::Max | Self::Min => true,
            Self::Atan2 => element.is_float() || element.is_complex(),
            Self::Sub | Self::Div | Self::Pow => element != ElementType::Bool,
            // XLA crashes on a complex remainder.
            Self::Rem => element != ElementType::Bool && !element.is_complex(),
        }
    }
}

/// A unary op whose result has its operand's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Unary {
    Cbrt,
    Ceil,
    Cosine,
    CountLeadingZeros,
    Exp,
    Expm1,
    Floor,
    Log,
    Log1p,
    Logistic,
    Negate,
    Not,
    PopulationCount,
    RoundAway,
    RoundEven,
    Rsqrt,
    Sign,
    Sine,
    Sqrt,
    Tan,
    Tanh,
    // CHLO: expanded by XLA before compilation.
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    BesselI1e,
    Cosh,
    Digamma,
    Erf,
    ErfInv,
    Erfc,
    Lgamma,
    Sinh,
}

impl Unary {
    fn name(self) -> &'static str {
        match self {
            Self::Cbrt => "stablehlo.cbrt",
            Self::Ceil => "stablehlo.ceil",
            Self::Cosine => "stablehlo.cosine",
            Self::CountLeadingZeros => "stablehlo.count_leading_zeros",
            Self::Exp => "stablehlo.exponential",
            Self::Expm1 => "stablehlo.exponential_minus_one",
            Self::Floor => "stablehlo.floor",
            Self::Log => "stablehlo.log",
            Self::Log1p => "stablehlo.log_plus_one",
            Self::Logistic => "stablehlo.logistic",
            Self::Negate => "stablehlo.negate",
            Self::Not => "stablehlo.not",
            Self::PopulationCount => "stablehlo.popcnt",
            Self::RoundAway => "stablehlo.round_nearest_afz",
            Self::RoundEven => "stablehlo.round_nearest_even",
            Self::Rsqrt => "stablehlo.rsqrt",
            Self::Sign => "stablehlo.sign",
            Self::Sine => "stablehlo.sine",
            Self::Sqrt => "stablehlo.sqrt",
            Self::Tan => "stablehlo.tan",
            Self::Tanh => "stablehlo.tanh",
            Self::Acos => "chlo.acos",
            Self::Acosh => "chlo.acosh",
            Self::Asin => "chlo.asin",
            Self::Asinh => "chlo.asinh",
            Self::Atan => "chlo.atan",
            Self::Atanh => "chlo.atanh",
            Self::BesselI1e => "chlo.bessel_i1e",
            Self::Cosh => "chlo.cosh",
            Self::Digamma => "chlo.digamma",
            Self::Erf => "chlo.erf",
            Self::ErfInv => "chlo.erf_inv",
            Self::Erfc => "chlo.erfc",
            Self::Lgamma => "chlo.lgamma",
            Self::Sinh => "chlo.sinh",
        }
    }

    fn accepts(self, element: ElementType) -> bool {
        match self {
            Self::Negate => element != ElementType::Bool,
            Self::Sign => !element.is_unsigned_integer() && element != ElementType::Bool,
            Self::Not => element == ElementType::Bool || element.is_integer(),
            Self::CountLeadingZeros | Self::PopulationCount => element.is_integer(),
            Self::Ceil | Self::Floor | Self::RoundAway | Self::RoundEven | Self::Cbrt => element.is_float(),
            Self::Digamma | Self::Erf | Self::ErfInv | Self::Lgamma => element.is_float(),
            // XLA does not expand these for f8.
            Self::BesselI1e | Self::Erfc => element.is_float() && element.byte_width() > 1,
            _ => element.is_float() || element.is_complex(),
        }
    }
}

/// How [`Builder::compare`] compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Direction {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Direction {
    fn spelling(self) -> &'static str {
        match self {
            Self::Eq => "EQ",
            Self::Ne => "NE",
            Self::Lt => "LT",
            Self::Le => "LE",
            Self::Gt => "GT",
            Self::Ge => "GE",
        }
    }
}

impl Builder {
    fn same_type(&self, op: &'static str, values: &[Value]) -> Result<TensorType> {
        let first = self.ty(values[0]);
        match values.iter().find(|v| self.ty(**v) != first) {
            None => Ok(first.clone()),
            Some(other) => {
                Err(BuildError::new(op, format!("operands differ: {first} and {}", self.ty(*other))))
            }
        }
    }

    /// A binary elementwise op. Integer overflow wraps; integer division truncates.
    pub fn binary(&mut self, op: Binary, lhs: Value, rhs: Value) -> Result<Value> {
        let ty = self.same_type(op.name(), &[lhs, rhs])?;
        if !op.accepts(ty.element) {
            return Err(BuildError::new(op.name(), format!("not defined for {}", ty.element)));
        }
        self.op(op.name(), &[lhs, rhs], vec![], ty)
    }

    /// A unary elementwise op.
    pub fn unary(&mut self, op: Unary, x: Value) -> Result<Value> {
        let ty = self.ty(x).clone();
        if !op.accepts(ty.element) {
            return Err(BuildError::new(op.name(), format!("not defined for {}", ty.element)));
        }
        self.op(op.name(), &[x], vec![], ty)
    }

    /// `stablehlo.compare`: bool result. Floats compare as IEEE does (NaN differs from everything).
    pub fn compare(&mut self, direction: Direction, lhs: Value, rhs: Value) -> Result<Value> {
        self.compare_as(direction, "FLOAT", lhs, rhs)
    }

    /// [`compare`](Self::compare), but floats are totally ordered: -NaN < -inf … -0 < +0 … inf < NaN. A descending
    /// sort of the last dimension in this order whose head is sliced is what XLA knows as a top-k.
    pub fn compare_total_order(&mut self, direction: Direction, lhs: Value, rhs: Value) -> Result<Value> {
        self.compare_as(direction, "TOTALORDER", lhs, rhs)
    }

    fn compare_as(&mut self, direction: Direction, float: &str, lhs: Value, rhs: Value) -> Result<Value> {
        let ty = self.same_type("stablehlo.compare", &[lhs, rhs])?;
        if ty.element.is_complex() && !matches!(direction, Direction::Eq | Direction::Ne) {
            return Err(BuildError::new("stablehlo.compare", format!("{} has no order", ty.element)));
        }
        let kind = match ty.element {
            e if e.is_complex() => "FLOAT",
            e if e.is_float() => float,
            e if e.is_signed_integer() => "SIGNED",
            _ => "UNSIGNED",
        };
        let attrs = vec![
            (
                "comparison_direction",
                Attr::Verbatim(format!("#stablehlo<comparison_direction {}>", direction.spelling())),
            ),
            ("compare_type", Attr::Verbatim(format!("#stablehlo<comparison_type {kind}>"))),
        ];
        self.op("stablehlo.compare", &[lhs, rhs], attrs, ty.with_element(ElementType::Bool))
    }

    /// `stablehlo.select`: `on_true` where `pred` (same shape, or a 0-d bool), else `on_false`.
    pub fn select(&mut self, pred: Value, on_true: Value, on_false: Value) -> Result<Value> {
        let ty = self.same_type("stablehlo.select", &[on_true, on_false])?;
        let p = self.ty(pred);
        if p.element != ElementType::Bool || (p.rank() != 0 && p.dims != ty.dims) {
            return Err(BuildError::new("stablehlo.select", format!("predicate {p} does not fit {ty}")));
        }
        self.op("stablehlo.select", &[pred, on_true, on_false], vec![], ty)
    }

    /// `stablehlo.clamp`: `x` limited to `[low, high]`, each of `x`'s type or 0-d. NaN stays NaN.
    pub fn clamp(&mut self, low: Value, x: Value, high: Value) -> Result<Value> {
        let op = "stablehlo.clamp";
        let ty = self.ty(x).clone();
        for limit in [low, high] {
            let limit = self.ty(limit);
            if limit.element != ty.element || (limit.rank() != 0 && *limit != ty) {
                return Err(BuildError::new(op, format!("limit {limit} for {ty}")));
            }
        }
        if ty.element.is_complex() {
            return Err(BuildError::new(op, format!("{} has no order", ty.element)));
        }
        self.op(op, &[low, x, high], vec![], ty)
    }

    /// `stablehlo.convert`. Float to integer truncates, saturates and maps NaN to 0; to bool it is `x != 0`.
    pub fn convert(&mut self, x: Value, element: ElementType) -> Result<Value> {
        if self.element(x) == element {
            return Ok(x);
        }
        let ty = self.ty(x).with_element(element);
        self.op("stablehlo.convert", &[x], vec![], ty)
    }

    /// `stablehlo.bitcast_convert` between element types of one width.
    pub fn bitcast(&mut self, x: Value, element: ElementType) -> Result<Value> {
        let from = self.element(x);
        if from == element {
            return Ok(x);
        }
        // A bool is one bit to StableHLO, and a complex number no bit pattern.
        let legal = |e: ElementType| e != ElementType::Bool && !e.is_complex();
        if !legal(from) || !legal(element) || from.byte_width() != element.byte_width() {
            let message = format!("{from} cannot be taken as {element}");
            return Err(BuildError::new("stablehlo.bitcast_convert", message));
        }
        let ty = self.ty(x).with_element(element);
        self.op("stablehlo.bitcast_convert", &[x], vec![], ty)
    }

    /// `stablehlo.bitcast_convert` to a narrower type: a new last dimension holds the parts of each element, the lowest
    /// first.
    pub fn bitcast_split(&mut self, x: Value, element: ElementType) -> Result<Value> {
        let mut ty = self.ty(x).with_element(element);
        let parts = parts("stablehlo.bitcast_convert", self.element(x), element)?;
        ty.dims.push(parts);
        self.op("stablehlo.bitcast_convert", &[x], vec![], ty)
    }

    /// `stablehlo.bitcast_convert` to a wider type: the last dimension holds the parts of each new element.
    pub fn bitcast_join(&mut self, x: Value, element: ElementType) -> Result<Value> {
        let op = "stablehlo.bitcast_convert";
        let mut ty = self.ty(x).with_element(element);
        let parts = parts(op, element, self.element(x))?;
        if ty.dims.pop() != Some(parts) {
            return Err(BuildError::new(op, format!("{} does not end in {parts} parts", self.ty(x))));
        }
        self.op(op, &[x], vec![], ty)
    }

    /// `stablehlo.is_finite` of floats: bool result.
    pub fn is_finite(&mut self, x: Value) -> Result<Value> {
        let ty = self.ty(x).clone();
        if !ty.element.is_float() {
            return Err(BuildError::new("stablehlo.is_finite", format!("not defined for {}", ty.element)));
        }
        self.op("stablehlo.is_finite", &[x], vec![], ty.with_element(ElementType::Bool))
    }

    /// `stablehlo.real`.
    pub fn real(&mut self, x: Value) -> Result<Value> {
        self.part("stablehlo.real", x)
    }

    /// `stablehlo.imag`.
    pub fn imag(&mut self, x: Value) -> Result<Value> {
        self.part("stablehlo.imag", x)
    }

    fn part(&mut self, op: &'static str, x: Value) -> Result<Value> {
        let ty = self.ty(x).clone();
        if !ty.element.is_complex() {
            return Err(BuildError::new(op, format!("not defined for {}", ty.element)));
        }
        self.op(op, &[x], vec![], ty.with_element(ty.element.real()))
    }

    /// `stablehlo.complex` of two f32 or two f64 tensors.
    pub fn complex(&mut self, re: Value, im: Value) -> Result<Value> {
        let ty = self.same_type("stablehlo.complex", &[re, im])?;
        let element = match ty.element {
            ElementType::F32 => ElementType::C64,
            ElementType::F64 => ElementType::C128,
            other => return Err(BuildError::new("stablehlo.complex", format!("not defined for {other}"))),
        };
        self.op("stablehlo.complex", &[re, im], vec![], ty.with_element(element))
    }

    /// `stablehlo.abs`; of a complex number its real magnitude. Unsigned integers pass through.
    pub fn abs(&mut self, x: Value) -> Result<Value> {
        let ty = self.ty(x).clone();
        if ty.element.is_unsigned_integer() || ty.element == ElementType::Bool {
            return Ok(x);
        }
        self.op("stablehlo.abs", &[x], vec![], ty.with_element(ty.element.real()))
    }

    /// `stablehlo.reduce_precision` to the given exponent and mantissa bits.
    pub fn reduce_precision(&mut self, x: Value, exponent_bits: i32, mantissa_bits: i32) -> Result<Value> {
        let ty = self.ty(x).clone();
        let attrs =
            vec![("exponent_bits", Attr::I32(exponent_bits)), ("mantissa_bits", Attr::I32(mantissa_bits))];
        self.op("stablehlo.reduce_precision", &[x], attrs, ty)
    }
}

/// How many elements of the type `narrow` an element of the type `wide` holds.
fn parts(op: &'static str, wide: ElementType, narrow: ElementType) -> Result<i64> {
    let (wide_bytes, narrow_bytes) = (wide.byte_width(), narrow.byte_width());
    if wide_bytes <= narrow_bytes || wide_bytes % narrow_bytes != 0 {
        return Err(BuildError::new(op, format!("{wide} does not consist of several {narrow}")));
    }
    Ok((wide_bytes / narrow_bytes) as i64)
}

/// One short method for each op that lowerings use most.
macro_rules! shorthands {
    ($($kind:ident $method:ident ( $($arg:ident),+ ) => $variant:expr;)*) => {
        impl Builder {
            $(
                #[doc = concat!("Shorthand for `", stringify!($variant), "`.")]
                pub fn $method(&mut self, $($arg: Value),+) -> Result<Value> {
                    self.$kind($variant, $($arg),+)
                }
            )*
        }
    };
}

shorthands! {
    binary add(lhs, rhs) => Binary::Add;
    binary sub(lhs, rhs) => Binary::Sub;
    binary mul(lhs, rhs) => Binary::Mul;
    binary div(lhs, rhs) => Binary::Div;
    binary rem(lhs, rhs) => Binary::Rem;
    binary max(lhs, rhs) => Binary::Max;
    binary min(lhs, rhs) => Binary::Min;
    binary pow(lhs, rhs) => Binary::Pow;
    binary and(lhs, rhs) => Binary::And;
    binary or(lhs, rhs) => Binary::Or;
    binary xor(lhs, rhs) => Binary::Xor;
    unary neg(x) => Unary::Negate;
    unary not(x) => Unary::Not;
    unary exp(x) => Unary::Exp;
    unary log(x) => Unary::Log;
    unary sqrt(x) => Unary::Sqrt;
    unary rsqrt(x) => Unary::Rsqrt;
    unary tanh(x) => Unary::Tanh;
    unary floor(x) => Unary::Floor;
    unary sign(x) => Unary::Sign;
    unary logistic(x) => Unary::Logistic;
    unary erf(x) => Unary::Erf;
}
