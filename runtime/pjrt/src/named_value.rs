//! Named attributes and options, in both directions.

use std::collections::BTreeMap;
use std::fmt;

use tpud_pjrt_sys as sys;

use crate::api::{slice, text};

/// The value of an attribute of a plugin or device, or of an option given to one.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the variants are the API's
pub enum NamedValue {
    Text(String),
    Integer(i64),
    Integers(Vec<i64>),
    Float(f32),
    Bool(bool),
}

impl fmt::Display for NamedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(value) => f.write_str(value),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Integers(values) => {
                let texts: Vec<_> = values.iter().map(i64::to_string).collect();
                f.write_str(&texts.join("."))
            }
            Self::Float(value) => write!(f, "{value}"),
            Self::Bool(value) => write!(f, "{value}"),
        }
    }
}

/// The options as the C API takes them; they borrow from `options`.
pub(crate) fn to_raw(options: &[(String, NamedValue)]) -> Vec<sys::PJRT_NamedValue> {
    options.iter().map(|(name, value)| raw_option(name, value)).collect()
}

fn raw_option(name: &str, value: &NamedValue) -> sys::PJRT_NamedValue {
    use sys::PJRT_NamedValue_Union as Union;
    let (kind, value, value_size) = match value {
        NamedValue::Text(text) => {
            (sys::PJRT_NamedValue_kString, Union { string_value: text.as_ptr().cast() }, text.len())
        }
        NamedValue::Integer(number) => (sys::PJRT_NamedValue_kInt64, Union { int64_value: *number }, 1),
        NamedValue::Integers(numbers) => {
            (sys::PJRT_NamedValue_kInt64List, Union { int64_array_value: numbers.as_ptr() }, numbers.len())
        }
        NamedValue::Float(number) => (sys::PJRT_NamedValue_kFloat, Union { float_value: *number }, 1),
        NamedValue::Bool(flag) => (sys::PJRT_NamedValue_kBool, Union { bool_value: *flag }, 1),
    };
    sys::PJRT_NamedValue {
        struct_size: size_of::<sys::PJRT_NamedValue>(),
        extension_start: std::ptr::null_mut(),
        name: name.as_ptr().cast(),
        name_size: name.len(),
        r#type: kind,
        value,
        value_size,
    }
}

/// Copies attributes out of the plugin. A value of a kind that is newer than this build is left out.
///
/// # Safety
/// `values` must be null or point to `count` attributes that are valid for the call.
pub(crate) unsafe fn from_raw(
    values: *const sys::PJRT_NamedValue,
    count: usize,
) -> BTreeMap<String, NamedValue> {
    let mut attributes = BTreeMap::new();
    // SAFETY: by contract; for each attribute the member of the union is the one that its type names.
    unsafe {
        for raw in slice(values, count) {
            let value = match raw.r#type {
                sys::PJRT_NamedValue_kString => {
                    NamedValue::Text(text(raw.value.string_value, raw.value_size))
                }
                sys::PJRT_NamedValue_kInt64 => NamedValue::Integer(raw.value.int64_value),
                sys::PJRT_NamedValue_kInt64List => {
                    NamedValue::Integers(slice(raw.value.int64_array_value, raw.value_size).to_vec())
                }
                sys::PJRT_NamedValue_kFloat => NamedValue::Float(raw.value.float_value),
                sys::PJRT_NamedValue_kBool => NamedValue::Bool(raw.value.bool_value),
                _ => continue,
            };
            attributes.insert(text(raw.name, raw.name_size), value);
        }
    }
    attributes
}
