//! The rules, a file per op family. A new family is a line in each of these two lists.

mod elementwise;

use crate::registry::Rule;

/// The tables of all families.
pub(crate) const ALL: &[&[Rule]] = &[elementwise::RULES];
