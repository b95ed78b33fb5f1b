#!/usr/bin/env bash
# client.sh VENV dev|release: builds the Python extension and makes the package importable from the source tree.
set -euo pipefail
venv=$(realpath "$1") profile=$2
flags=(--quiet --locked)
[ "$profile" = release ] && flags+=(--release)
cd python-client
VIRTUAL_ENV=$venv PATH="$venv/bin:$PATH" "$venv/bin/maturin" develop "${flags[@]}"
