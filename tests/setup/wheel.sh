#!/usr/bin/env bash
# wheel.sh VENV BINARY: one abi3 wheel in dist/ with the package, its extension and the `tpud` binary.
set -euo pipefail
venv=$(realpath "$1") binary=$(realpath "$2")
if ldd "$binary" | grep -qiE 'LLVM|MLIR'; then
  echo "$binary needs LLVM at run time" >&2
  exit 1
fi
install -D -m 755 "$binary" python-client/data/scripts/tpud
cd python-client
"$venv/bin/maturin" build --release --locked --quiet --out ../dist
ls -l ../dist/*.whl
