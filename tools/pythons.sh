#!/usr/bin/env bash
# Tests the layers that need no server on every other Python of this machine that deltasql supports.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$(tools/uv.sh)
tested=()
failed=()
own=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')

# pyenv's shims answer only for the version that is switched on
find_python() {
  local candidate
  for candidate in "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
    if [ -x "$candidate" ]; then echo "$candidate" && return; fi
  done
  "$uv" python find --no-project --offline "$1" 2>/dev/null
}

for version in 3.11 3.12 3.13 3.14; do
  [ "$version" = "$own" ] && continue # make test has done it
  python=$(find_python "$version") || continue
  home=.cache/python-$version
  [ -x "$home/bin/python" ] || "$uv" venv --quiet --python "$python" "$home"
  export VIRTUAL_ENV=$PWD/$home
  "$uv" pip sync --quiet --require-hashes requirements.lock
  "$uv" pip install --quiet --no-deps -e .
  echo "== Python $version"
  "$home/bin/python" tools/import_all.py || failed+=("$version")
  "$home/bin/python" -m pytest -p no:cacheprovider -n 2 "$@" tests/unit || failed+=("$version")
  tested+=("$version")
done
echo "tested: ${tested[*]:-no Python of 3.11 to 3.14 is there besides $own}"
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}" >&2 && exit 1; }
