#!/usr/bin/env bash
# client.sh VENV dev|release: builds the Python extension into the source tree and makes the package importable.
set -euo pipefail
venv=$(realpath "$1") profile=$2
flags=(--quiet)
[ "$profile" = release ] && flags+=(--release)
cd python-client
VIRTUAL_ENV=$venv PATH="$venv/bin:$PATH" "$venv/bin/maturin" develop --skip-install "${flags[@]}" 2>/dev/null \
  || VIRTUAL_ENV=$venv PATH="$venv/bin:$PATH" "$venv/bin/maturin" develop "${flags[@]}"
