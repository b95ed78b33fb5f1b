//! The rules, a file per op family. A new family is a line in each of these two lists.

mod concat;
mod elementwise;
mod slice;
mod view;

use crate::registry::Rule;

/// The tables of all families.
pub(crate) const ALL: &[&[Rule]] = &[concat::RULES, elementwise::RULES, slice::RULES, view::RULES];
