//! Compile options: checked, and spelt one way for keys.

use tpud_pjrt::platform::cpu;
use tpud_pjrt::{CompileOptions, OptionValue};
use tpud_proto::v1::{self, Precision, xla_flag};

use super::target::{Platform, ResolvedTarget};
use crate::error::{DaemonError, Result};

/// Refuses options that the protocol does not allow.
pub(crate) fn check(options: &v1::CompileOptions) -> Result<()> {
    precision(options)?;
    for flag in &options.xla_flags {
        if flag.name.is_empty() || flag.value.is_none() {
            return Err(DaemonError::InvalidOptions(format!(
                "XLA flag {:?} has no name or no value",
                flag.name
            )));
        }
        if flag.name == "xla_cpu_max_isa" {
            let why = "it decides which machines an executable runs on, and is set by tpud";
            return Err(DaemonError::InvalidOptions(format!("XLA flag {:?} can't be set: {why}", flag.name)));
        }
    }
    let unsorted = options.xla_flags.windows(2).find(|pair| pair[0].name >= pair[1].name);
    match unsorted {
        Some(pair) => Err(DaemonError::InvalidOptions(format!(
            "XLA flags must be sorted by name, each given once: {:?} comes before {:?}",
            pair[0].name, pair[1].name
        ))),
        None => Ok(()),
    }
}

/// Refuses an emulation of a TPU on one.
pub(crate) fn check_emulation(options: &v1::CompileOptions, platform: Platform) -> Result<()> {
    if options.emulate_tpu_precision && platform != Platform::Cpu {
        let why =
            "emulate_tpu_precision shows on a CPU what a TPU computes; this target is one, so leave it out";
        return Err(DaemonError::InvalidOptions(why.to_owned()));
    }
    Ok(())
}

/// Flags that hold unless the client sets them, by platform. They go into keys like the client's own.
const CPU_DEFAULTS: [(&str, bool); 1] = [
    // XLA's own default compares in a way that loses NaN in min, max and clamp. In torch NaN wins.
    ("xla_cpu_enable_fast_min_max", false),
];

/// Fills in the flags that tpud gives a platform.
pub(crate) fn add_defaults(options: &mut v1::CompileOptions, platform: Platform) {
    if platform != Platform::Cpu {
        return;
    }
    for (name, value) in CPU_DEFAULTS {
        if let Err(place) = options.xla_flags.binary_search_by(|flag| flag.name.as_str().cmp(name)) {
            let value = Some(xla_flag::Value::Boolean(value));
            options.xla_flags.insert(place, v1::XlaFlag { name: name.to_owned(), value });
        }
    }
}

/// The precision with its default resolved.
pub(crate) fn precision(options: &v1::CompileOptions) -> Result<Precision> {
    match Precision::try_from(options.precision) {
        Ok(Precision::Unspecified) => Ok(Precision::Highest),
        Ok(known) => Ok(known),
        Err(_) => Err(DaemonError::InvalidOptions(format!("precision {} is not known", options.precision))),
    }
}

/// torch's name of a precision.
pub(crate) fn precision_name(precision: Precision) -> &'static str {
    match precision {
        Precision::Unspecified | Precision::Highest => "highest",
        Precision::High => "high",
        Precision::Medium => "medium",
    }
}

/// Names and values of the flags, each with its type, for keys.
pub(crate) fn flag_texts(options: &v1::CompileOptions) -> Vec<(&str, String)> {
    options.xla_flags.iter().map(|flag| (flag.name.as_str(), flag_text(flag.value.as_ref()))).collect()
}

fn flag_text(value: Option<&xla_flag::Value>) -> String {
    match value {
        Some(xla_flag::Value::Boolean(value)) => format!("bool:{value}"),
        Some(xla_flag::Value::Integer(value)) => format!("int:{value}"),
        // Bits, so that no rounding of a text can make two values one.
        Some(xla_flag::Value::Floating(value)) => format!("float:{value}:{:016x}", value.to_bits()),
        Some(xla_flag::Value::Text(value)) => format!("text:{value}"),
        None => "none".to_owned(),
    }
}

/// The options that XLA is given.
pub(crate) fn for_xla(options: &v1::CompileOptions, target: &ResolvedTarget) -> CompileOptions {
    let mut given = CompileOptions::default();
    for flag in &options.xla_flags {
        let value = match &flag.value {
            Some(xla_flag::Value::Boolean(value)) => OptionValue::Bool(*value),
            Some(xla_flag::Value::Integer(value)) => OptionValue::Integer(*value),
            Some(xla_flag::Value::Floating(value)) => OptionValue::Float(*value),
            Some(xla_flag::Value::Text(value)) => OptionValue::Text(value.clone()),
            None => continue,
        };
        given = given.with(flag.name.as_str(), value);
    }
    match target.platform {
        Platform::Cpu => cpu::pin_to(cpu::isa_level(), given),
        Platform::Tpu => given,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flag(name: &str, value: xla_flag::Value) -> v1::XlaFlag {
        v1::XlaFlag { name: name.into(), value: Some(value) }
    }

    #[test]
    fn defaults_yield_to_the_clients_flags_and_keep_the_order() {
        let value = |on| xla_flag::Value::Boolean(on);
        let xla_flags = vec![flag("a", value(true)), flag("xla_cpu_use_x", value(true))];
        let mut options = v1::CompileOptions { xla_flags, ..Default::default() };
        add_defaults(&mut options, Platform::Cpu);
        let names: Vec<_> = options.xla_flags.iter().map(|flag| flag.name.as_str()).collect();
        assert_eq!(names, ["a", "xla_cpu_enable_fast_min_max", "xla_cpu_use_x"]);
        check(&options).unwrap();

        options.xla_flags[1].value = Some(value(true));
        let chosen = options.clone();
        add_defaults(&mut options, Platform::Cpu);
        assert_eq!(options, chosen);

        let mut tpu = v1::CompileOptions::default();
        add_defaults(&mut tpu, Platform::Tpu);
        assert!(tpu.xla_flags.is_empty());
    }

    #[test]
    fn only_a_cpu_emulates() {
        let options = v1::CompileOptions { emulate_tpu_precision: true, ..Default::default() };
        check_emulation(&options, Platform::Cpu).unwrap();
        check_emulation(&v1::CompileOptions::default(), Platform::Tpu).unwrap();
        let refused = check_emulation(&options, Platform::Tpu).unwrap_err().to_string();
        assert!(refused.contains("emulate_tpu_precision"), "{refused}");
    }

    #[test]
    fn flags_are_sorted_unique_and_typed() {
        use xla_flag::Value::{Boolean, Text};
        let options =
            |flags: &[v1::XlaFlag]| v1::CompileOptions { xla_flags: flags.to_vec(), ..Default::default() };
        let a = flag("a", Boolean(true));
        let b = flag("b", Text("true".into()));
        check(&options(&[a.clone(), b.clone()])).unwrap();
        assert!(check(&options(&[b.clone(), a.clone()])).is_err());
        assert!(check(&options(&[a.clone(), a.clone()])).is_err());
        assert!(check(&options(&[flag("xla_cpu_max_isa", Text("AVX512".into()))])).is_err());
        assert!(check(&options(&[v1::XlaFlag { name: "a".into(), value: None }])).is_err());
        assert!(check(&v1::CompileOptions { precision: 99, ..Default::default() }).is_err());
        assert_ne!(flag_text(a.value.as_ref()), flag_text(b.value.as_ref()));
    }
}
