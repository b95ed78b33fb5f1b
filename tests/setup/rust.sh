#!/usr/bin/env bash
# Debian 12's own rustc is too old: say so before cargo fails with something less clear.
set -euo pipefail
needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if ! command -v cargo >/dev/null; then
  echo "Rust $needed or newer is needed (cargo was not found): see https://rustup.rs" >&2
  exit 1
fi
found=$(rustc --version | cut -d' ' -f2)
if [ "$(printf '%s\n%s\n' "$needed" "$found" | sort -V | head -1)" != "$needed" ]; then
  echo "Rust $needed or newer is needed, found $found: see https://rustup.rs" >&2
  exit 1
fi
