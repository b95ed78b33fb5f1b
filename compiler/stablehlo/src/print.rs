//! MLIR text in generic form, for people, snapshots and tests.

use std::collections::HashMap;
use std::fmt::{self, Write};

use crate::{Attr, ElementType, Literal, Module, Op, Region, Value};

/// Literals with at most this many elements are printed number by number.
const READABLE_ELEMENTS: i64 = 16;

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printer { module: self, names: HashMap::new(), f }.module()
    }
}

struct Printer<'m, 'f, 'b> {
    module: &'m Module,
    /// Values are renumbered in printing order, so that dead code leaves no gaps.
    names: HashMap<Value, String>,
    f: &'f mut fmt::Formatter<'b>,
}

impl Printer<'_, '_, '_> {
    fn module(mut self) -> fmt::Result {
        self.f.write_str("module {\n  func.func public @main(")?;
        for (i, arg) in self.module.body.args.iter().enumerate() {
            self.names.insert(*arg, format!("%arg{i}"));
            let separator = if i > 0 { ", " } else { "" };
            write!(self.f, "{separator}%arg{i}: {}", self.module.ty(*arg))?;
            if let Some(output) = self.module.aliases.get(i).copied().flatten() {
                write!(self.f, " {{tf.aliasing_output = {output} : i32}}")?;
            }
        }
        self.f.write_str(") -> (")?;
        self.types(&self.module.results)?;
        self.f.write_str(") {\n")?;
        self.ops(&self.module.body, 2)?;
        self.f.write_str("  }\n}\n")
    }

    fn types(&mut self, values: &[Value]) -> fmt::Result {
        for (i, value) in values.iter().enumerate() {
            write!(self.f, "{}{}", if i > 0 { ", " } else { "" }, self.module.ty(*value))?;
        }
        Ok(())
    }

    fn name(&mut self, value: Value) -> String {
        let next = self.names.len();
        self.names.entry(value).or_insert_with(|| format!("%{next}")).clone()
    }

    fn ops(&mut self, region: &Region, depth: usize) -> fmt::Result {
        region.ops.iter().try_for_each(|op| self.op(op, depth))
    }

    fn op(&mut self, op: &Op, depth: usize) -> fmt::Result {
        write!(self.f, "{:1$}", "", depth * 2)?;
        let results: Vec<String> = op.results.iter().map(|v| self.name(*v)).collect();
        if !results.is_empty() {
            write!(self.f, "{} = ", results.join(", "))?;
        }
        let operands: Vec<String> = op.operands.iter().map(|v| self.name(*v)).collect();
        write!(self.f, "\"{}\"({})", op.name, operands.join(", "))?;
        if !op.regions.is_empty() {
            self.regions(&op.regions, depth)?;
        }
        if !op.attrs.is_empty() {
            self.f.write_str(" {")?;
            for (i, (name, attr)) in op.attrs.iter().enumerate() {
                write!(self.f, "{}{name} = {}", if i > 0 { ", " } else { "" }, AttrText(attr))?;
            }
            self.f.write_str("}")?;
        }
        self.f.write_str(" : (")?;
        self.types(&op.operands)?;
        self.f.write_str(") -> ")?;
        let parentheses = op.results.len() != 1;
        self.f.write_str(if parentheses { "(" } else { "" })?;
        self.types(&op.results)?;
        self.f.write_str(if parentheses { ")\n" } else { "\n" })
    }

    fn regions(&mut self, regions: &[Region], depth: usize) -> fmt::Result {
        self.f.write_str(" (")?;
        for (i, region) in regions.iter().enumerate() {
            self.f.write_str(if i > 0 { ", {\n" } else { "{\n" })?;
            if !region.args.is_empty() {
                let args: Vec<String> = region
                    .args
                    .iter()
                    .map(|arg| format!("{}: {}", self.name(*arg), self.module.ty(*arg)))
                    .collect();
                writeln!(self.f, "{:2$}^bb0({}):", "", args.join(", "), depth * 2)?;
            }
            self.ops(region, depth + 1)?;
            write!(self.f, "{:1$}}}", "", depth * 2)?;
        }
        self.f.write_str(")")
    }
}

/// An attribute in MLIR syntax.
struct AttrText<'a>(&'a Attr);

impl fmt::Display for AttrText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T: fmt::Display>(
            f: &mut fmt::Formatter<'_>,
            head: &str,
            items: &[T],
            tail: &str,
        ) -> fmt::Result {
            f.write_str(head)?;
            for (i, item) in items.iter().enumerate() {
                write!(f, "{}{item}", if i > 0 { ", " } else { "" })?;
            }
            f.write_str(tail)
        }
        match self.0 {
            Attr::Bool(b) => write!(f, "{b}"),
            Attr::I64(i) => write!(f, "{i} : i64"),
            Attr::I32(i) => write!(f, "{i} : i32"),
            Attr::I64s(v) if v.is_empty() => f.write_str("array<i64>"),
            Attr::I64s(v) => list(f, "array<i64: ", v, ">"),
            Attr::Bools(v) if v.is_empty() => f.write_str("array<i1>"),
            Attr::Bools(v) => list(f, "array<i1: ", v, ">"),
            Attr::Text(text) => quoted(f, text),
            Attr::Symbol(name) => write!(f, "@{name}"),
            Attr::Dense(literal) => literal.fmt(f),
            Attr::Verbatim(text) => f.write_str(text),
            Attr::Array(items) => list(f, "[", &items.iter().map(AttrText).collect::<Vec<_>>(), "]"),
        }
    }
}

/// A string literal: MLIR knows `\\"`, `\\\\` and two hex digits.
fn quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => write!(f, "\\{}", char::from(byte))?,
            b' '..=b'~' => f.write_char(char::from(byte))?,
            _ => write!(f, "\\{byte:02X}")?,
        }
    }
    f.write_char('"')
}

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        AttrText(self).fmt(f)
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ty = self.ty();
        if ty.elements() == 0 {
            return write!(f, "dense<> : {ty}");
        }
        let readable =
            self.is_splat() || ty.elements() <= READABLE_ELEMENTS || ty.element == ElementType::Bool;
        if !readable {
            let mut hex = String::with_capacity(self.bytes().len() * 2);
            for byte in self.bytes() {
                write!(hex, "{byte:02X}")?;
            }
            return write!(f, "dense<\"0x{hex}\"> : {ty}");
        }
        let width = ty.element.byte_width();
        let items: Vec<String> =
            self.bytes().chunks_exact(width).map(|b| element_text(ty.element, b)).collect();
        if self.is_splat() {
            return write!(f, "dense<{}> : {ty}", items[0]);
        }
        write!(f, "dense<{}> : {ty}", nested(&ty.dims, &items))
    }
}

fn nested(dims: &[i64], items: &[String]) -> String {
    let Some((&first, rest)) = dims.split_first() else { return items[0].clone() };
    let step = items.len() / first as usize;
    let parts: Vec<String> = items.chunks(step).map(|chunk| nested(rest, chunk)).collect();
    format!("[{}]", parts.join(", "))
}

/// One element; floats that have no exact short decimal form are printed as bits.
fn element_text(element: ElementType, bytes: &[u8]) -> String {
    let mut wide = [0u8; 8];
    let n = bytes.len().min(8);
    wide[..n].copy_from_slice(&bytes[..n]);
    let bits = u64::from_le_bytes(wide);
    let signed = |shift: u32| ((bits << shift) as i64 >> shift).to_string();
    match element {
        ElementType::Bool => (bits != 0).to_string(),
        ElementType::U8 | ElementType::U16 | ElementType::U32 | ElementType::U64 => bits.to_string(),
        ElementType::I8 => signed(56),
        ElementType::I16 => signed(48),
        ElementType::I32 => signed(32),
        ElementType::I64 => signed(0),
        ElementType::F32 => decimal(
            f64::from(f32::from_bits(bits as u32)),
            format!("{:?}", f32::from_bits(bits as u32)),
            || format!("0x{bits:08X}"),
        ),
        ElementType::F64 => {
            decimal(f64::from_bits(bits), format!("{:?}", f64::from_bits(bits)), || format!("0x{bits:016X}"))
        }
        ElementType::BF16 => {
            let x = half::bf16::from_bits(bits as u16).to_f64();
            decimal(x, format!("{x:?}"), || format!("0x{bits:04X}"))
        }
        ElementType::F16 => {
            let x = half::f16::from_bits(bits as u16).to_f64();
            decimal(x, format!("{x:?}"), || format!("0x{bits:04X}"))
        }
        ElementType::F8E4M3FN | ElementType::F8E5M2 => format!("0x{bits:02X}"),
        ElementType::C64 | ElementType::C128 => {
            let (part, half) = (element.real(), bytes.len() / 2);
            format!("({}, {})", element_text(part, &bytes[..half]), element_text(part, &bytes[half..]))
        }
    }
}

fn decimal(x: f64, text: String, bits: impl FnOnce() -> String) -> String {
    if !x.is_finite() {
        return bits();
    }
    // MLIR wants a dot before an exponent.
    match text.split_once('e') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0e{exponent}"),
        _ => text,
    }
}
