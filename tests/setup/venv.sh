#!/usr/bin/env bash
# venv.sh VENV PYTHON REQUIREMENTS: makes the virtual environment and installs the requirements into it.
set -euo pipefail
venv=$1 python=$2 requirements=$3
if [ ! -x "$venv/bin/python" ]; then
  command -v "$python" >/dev/null || { echo "CPython 3.11 is needed ($python was not found)" >&2; exit 1; }
  echo "Making $venv"
  "$python" -m venv "$venv"
fi
echo "Installing Python packages (torch is large: some minutes the first time)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
# torchvision and timm name no torch build of their own: take them without their dependencies.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps torchvision==0.29.2
