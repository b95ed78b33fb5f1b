//! The daemon as its clients meet it: the real binary, real workers, real plugins.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cli;
mod compile;
mod execute;
mod faults;
mod lifecycle;
mod protocol;
mod support;
