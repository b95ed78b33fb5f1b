#!/usr/bin/env bash
# Installs the Debian packages given as arguments, if any is missing.
set -euo pipefail
missing=()
for package in "$@"; do
  # A package that the distribution does not know by this name (another Python) is left to the checks that follow.
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "These Debian packages are needed: ${missing[*]}. Run as root: apt-get install ${missing[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
log=$(mktemp)
echo "Installing Debian packages: ${missing[*]}"
if ! { "${sudo[@]}" apt-get update -q && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -20 "$log" >&2
  echo "apt-get failed; the whole log is in $log" >&2
  exit 1
fi
rm -f "$log"
