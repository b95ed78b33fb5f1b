#!/usr/bin/env bash
# client.sh VENV dev|release: builds the Python extension and makes the package importable from the source tree.
set -euo pipefail
venv=$(realpath "$1") profile=$2
flags=(--quiet --locked)
[ "$profile" = release ] && flags+=(--release)
cd python-client
log=$(mktemp)
if ! VIRTUAL_ENV=$venv PATH="$venv/bin:$PATH" "$venv/bin/maturin" develop "${flags[@]}" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
rm -f "$log"
