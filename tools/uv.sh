#!/usr/bin/env bash
# Prints where uv is: on the PATH, else in .tools/uv, where it is installed on first use.
set -euo pipefail
cd "$(dirname "$0")/.."
# a shim may be on the PATH without a uv behind it: only one that answers counts
if uv --version >/dev/null 2>&1; then
  command -v uv
  exit 0
fi
home=$PWD/.tools/uv
if [ ! -x "$home/bin/uv" ]; then
  echo "installing uv into .tools/uv" >&2
  if python3 -m venv "$home" >/dev/null 2>&1; then
    "$home/bin/python" -m pip install --quiet --disable-pip-version-check uv >&2
  else # some distributions ship python3 without ensurepip
    rm -rf "$home"
    python3 -m pip install --quiet --disable-pip-version-check --target "$home" uv >&2
  fi
fi
echo "$home/bin/uv"
