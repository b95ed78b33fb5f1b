//! Compile options as a Python dict.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use tpud_proto::v1::xla_flag::Value;
use tpud_proto::v1::{CompileOptions, Precision, Target, XlaFlag};

const KNOWN: &str = "platform, topology, precision, xla_flags, checks, emulate_tpu_precision";

/// Reads the options; absent ones keep the daemon's defaults.
pub(crate) fn parse(options: Option<&Bound<'_, PyDict>>) -> PyResult<CompileOptions> {
    let mut target = Target::default();
    let mut parsed = CompileOptions::default();
    for (key, value) in options.into_iter().flatten() {
        let key: String = key.extract()?;
        match key.as_str() {
            "platform" => target.platform = value.extract()?,
            "topology" => target.topology = value.extract()?,
            "precision" => parsed.precision = precision(&value.extract::<String>()?)? as i32,
            "checks" => parsed.checks = value.extract()?,
            "emulate_tpu_precision" => parsed.emulate_tpu_precision = value.extract()?,
            "xla_flags" => parsed.xla_flags = xla_flags(&value)?,
            _ => {
                let message = format!("unknown compile option {key:?}; known are {KNOWN}");
                return Err(PyValueError::new_err(message));
            }
        }
    }
    parsed.target = Some(target);
    Ok(parsed)
}

fn precision(name: &str) -> PyResult<Precision> {
    match name {
        "highest" => Ok(Precision::Highest),
        "high" => Ok(Precision::High),
        "medium" => Ok(Precision::Medium),
        _ => {
            let message = format!("unknown precision {name:?}; known are highest, high, medium");
            Err(PyValueError::new_err(message))
        }
    }
}

fn xla_flags(flags: &Bound<'_, PyAny>) -> PyResult<Vec<XlaFlag>> {
    let flags = flags.cast::<PyDict>().map_err(|_| PyTypeError::new_err("xla_flags is a dict"))?;
    let mut parsed = Vec::with_capacity(flags.len());
    for (name, value) in flags {
        let name: String = name.extract()?;
        let value = flag_value(&name, &value)?;
        parsed.push(XlaFlag { name, value: Some(value) });
    }
    parsed.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(parsed)
}

fn flag_value(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(boolean) = value.cast::<PyBool>() {
        Ok(Value::Boolean(boolean.is_true()))
    } else if value.is_instance_of::<PyInt>() {
        Ok(Value::Integer(value.extract()?))
    } else if let Ok(float) = value.cast::<PyFloat>() {
        Ok(Value::Floating(float.value()))
    } else if let Ok(text) = value.cast::<PyString>() {
        Ok(Value::Text(text.to_str()?.to_owned()))
    } else {
        Err(PyTypeError::new_err(format!("XLA flag {name:?} has to be a bool, int, float or str")))
    }
}
