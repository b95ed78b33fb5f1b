//! Tests of the tiers from outside: contract, corruption, crashes, full disks, races, two daemons on one directory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod contract;
mod corruption;
mod crash;
mod facade;
mod full;
mod latency;
mod races;
mod shared_directory;
mod support;
