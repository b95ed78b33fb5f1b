//! Which op overloads the conformance case files name.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// One file of `tests/conformance/cases`.
#[derive(Debug, Default)]
pub(crate) struct CaseFile {
    /// The file's name without `.py`.
    pub(crate) family: String,
    /// Overloads in full, e.g. `aten.add.Tensor`.
    literal: BTreeSet<String>,
    /// Overloads with holes, as f-strings have them: `aten.{op}.Tensor`.
    templates: BTreeSet<String>,
    /// What may stand in a hole: the quoted words of the file, and one digit.
    words: BTreeSet<String>,
}

impl CaseFile {
    /// Reads the text of a case file.
    fn parse(family: &str, source: &str) -> Self {
        let mut file = Self { family: family.to_owned(), ..Self::default() };
        for quoted in source.lines().flat_map(|line| line.split('"').skip(1).step_by(2)) {
            let holes = quoted.contains('{');
            match quoted.split('.').count() {
                3 if quoted.starts_with(char::is_alphabetic) && !quoted.contains(' ') => {
                    if holes { &mut file.templates } else { &mut file.literal }.insert(quoted.to_owned());
                }
                2 if quoted.starts_with("higher_order.") => {
                    file.literal.insert(quoted.to_owned());
                }
                1 if is_word(quoted) => {
                    file.words.insert(quoted.to_owned());
                }
                _ => {}
            }
        }
        file.words.extend((1..=3).map(|n| n.to_string()));
        file
    }

    /// Whether the file has a case for an overload.
    pub(crate) fn covers(&self, op: &str) -> bool {
        self.literal.contains(op) || self.templates.iter().any(|template| self.fits(template, op))
    }

    /// Whether a template with words in its holes is the overload.
    fn fits(&self, template: &str, op: &str) -> bool {
        let Some((before, rest)) = template.split_once('{') else { return template == op };
        let Some(op) = op.strip_prefix(before) else { return false };
        let Some((_, after)) = rest.split_once('}') else { return false };
        self.words.iter().any(|word| op.strip_prefix(word.as_str()).is_some_and(|op| self.fits(after, op)))
    }

    /// What the file names but no rule is for.
    fn without_rule<'f>(&'f self, ops: &[&str]) -> Vec<&'f str> {
        let known = |name: &&String| !ops.iter().any(|op| self.fits(name, op));
        self.literal.iter().chain(&self.templates).filter(known).map(String::as_str).collect()
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// All case files, by name.
pub(crate) fn read(dir: &Path) -> Result<Vec<CaseFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if let Some(name) = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".py")) {
            files.push(CaseFile::parse(name, &fs::read_to_string(&path)?));
        }
    }
    files.sort_by(|a, b| a.family.cmp(&b.family));
    Ok(files)
}

/// Rules without a case, and cases without a rule, one line each.
pub(crate) fn mismatches(files: &[CaseFile], ops: &[&str]) -> Vec<String> {
    let without_case = ops.iter().filter(|op| !files.iter().any(|file| file.covers(op)));
    let without_case =
        without_case.map(|op| format!("{op} has a rule, but no case in tests/conformance/cases"));
    let without_rule = files.iter().flat_map(|file| {
        file.without_rule(ops)
            .into_iter()
            .map(|name| format!("{name} has a case in {}.py, but no rule", file.family))
    });
    without_case.chain(without_rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root;

    #[test]
    fn every_rule_has_a_case_and_every_case_a_rule() -> Result<()> {
        let found =
            mismatches(&read(&root().join("tests/conformance/cases"))?, &tpud_lowering::supported_ops());
        assert!(found.is_empty(), "{}", found.join("\n"));
        Ok(())
    }

    #[test]
    fn names_are_literal_or_have_holes() {
        let source = "case(\"aten.add.Tensor\", f)\ncase(\"higher_order.cond\", f)\nfor op in (\"sin\", \"cos\"):\n  case(f\"aten.{op}{n}d.default\", f)\n";
        let file = CaseFile::parse("few", source);
        for (op, covered) in [
            ("aten.add.Tensor", true),
            ("higher_order.cond", true),
            ("higher_order.scan", false),
            ("aten.sin2d.default", true),
            ("aten.cos1d.default", true),
            ("aten.cos.default", false),
            ("aten.tan2d.default", false),
            ("aten.sin2d.out", false),
        ] {
            assert_eq!(file.covers(op), covered, "{op}");
        }
        let lines = mismatches(&[file], &["aten.tan.default", "aten.sin2d.default", "higher_order.cond"]);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("aten.tan.default has a rule"), "{lines:?}");
        assert!(lines[1].starts_with("aten.add.Tensor has a case in few.py"), "{lines:?}");
    }
}
