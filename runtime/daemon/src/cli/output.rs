//! Standard output belongs to the result; progress and complaints go to standard error.

use std::io::{IsTerminal, Write};

use serde_json::Value;

use super::failure::Failure;
use super::json;

/// Where results go, and in which form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    json: bool,
}

impl Output {
    pub(super) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Prints a result in the form that was asked for.
    pub(super) fn result(&self, value: &Value, text: impl FnOnce() -> String) -> std::io::Result<()> {
        let text = if self.json { format!("{value:#}") } else { text() };
        let mut stdout = std::io::stdout().lock();
        match writeln!(stdout, "{}", text.trim_end()).and_then(|()| stdout.flush()) {
            // Whoever reads has seen enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Prints why there is no result.
    pub(super) fn failure(&self, failure: &Failure) {
        if self.json {
            let _ = self.result(&json::failure(failure), String::new);
        } else {
            eprintln!("tpud: {failure}");
        }
    }

    /// Shows a line that the next one replaces; only to people.
    pub(super) fn progress(&self, line: &str) {
        let mut stderr = std::io::stderr().lock();
        if !self.json && stderr.is_terminal() {
            let _ = write!(stderr, "\r\x1b[K{line}").and_then(|()| stderr.flush());
        }
    }
}

/// Bytes for people.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A large count for people: 1.23 G.
pub(super) fn count(value: f64) -> String {
    const UNITS: [(f64, &str); 5] = [(1e15, " P"), (1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    match UNITS.iter().find(|(size, _)| value >= *size) {
        Some((size, unit)) => format!("{:.2}{unit}", value / size),
        None => format!("{value:.0} "),
    }
}

/// A time for people.
pub(super) fn seconds(value: f64) -> String {
    match value {
        value if value >= 1.0 => format!("{value:.2} s"),
        value if value >= 1e-3 => format!("{:.2} ms", value * 1e3),
        value if value >= 1e-6 => format!("{:.1} µs", value * 1e6),
        value => format!("{:.1} ns", value * 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            (bytes(1023), bytes(1536), bytes(32 << 30)),
            ("1023 B".into(), "1.5 KiB".into(), "32.0 GiB".into())
        );
        assert_eq!((count(12.0), count(2.5e9)), ("12 ".into(), "2.50 G".into()));
        assert_eq!(
            (seconds(2.0), seconds(0.0025), seconds(3e-6)),
            ("2.00 s".into(), "2.50 ms".into(), "3.0 µs".into())
        );
    }
}
