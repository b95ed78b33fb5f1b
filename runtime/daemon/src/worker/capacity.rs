//! What XLA says of a program that does not fit, as numbers. It says it in words only.

/// Needed and available bytes, if the message has them in a form that is known.
pub(super) fn needed_and_available(message: &str) -> Option<(u64, u64)> {
    parenthesised(message).or_else(|| used_of(message)).filter(|(needed, available)| needed > available)
}

/// `… (33.53G) exceeds available HBM (31.24G) …`
fn parenthesised(message: &str) -> Option<(u64, u64)> {
    let (before, after) = message.split_once(") exceeds available HBM (")?;
    let (_, needed) = before.rsplit_once('(')?;
    let (available, _) = after.split_once(')')?;
    Some((bytes(needed)?, bytes(available)?))
}

/// `… Used 40.00G of 31.25G hbm …`
fn used_of(message: &str) -> Option<(u64, u64)> {
    let (_, rest) = message.split_once("Used ")?;
    let (needed, rest) = rest.split_once(" of ")?;
    let (available, _) = rest.split_once(" hbm")?;
    Some((bytes(needed)?, bytes(available)?))
}

/// `33.53G` in bytes; XLA's units are powers of 1024.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..)? {
        "" | "B" => 1_u64,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "T" | "TiB" => 1 << 40,
        _ => return None,
    };
    let value: f64 = digits.parse().ok()?;
    (0.0..1e6).contains(&value).then_some((value * unit as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_of_xla_s_sentences_are_read() {
        let new = "Ran out of memory on HBM, the total memory required for HLO temporaries (33.50G) exceeds available \
                   HBM (31.25G). HLO module: main.";
        let gib = |value: f64| (value * 1073741824.0) as u64;
        assert_eq!(needed_and_available(new), Some((gib(33.5), gib(31.25))));
        let old = "Ran out of memory in memory space hbm. Used 40.00G of 512.00M hbm. Exceeded hbm capacity by 39.50G.";
        assert_eq!(needed_and_available(old), Some((gib(40.0), 512 << 20)));
        for other in ["", "out of memory", "(x) exceeds available HBM (y)", "(1G) exceeds available HBM (2G)"]
        {
            assert_eq!(needed_and_available(other), None, "{other}");
        }
    }
}
