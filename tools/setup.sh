#!/usr/bin/env bash
# Makes .venv hold exactly what requirements.lock pins, and this project; instant when it does.
set -euo pipefail
cd "$(dirname "$0")/.."
stamp=.venv/.setup
want=$(cat requirements.lock pyproject.toml src/deltasql/version.py | sha256sum)
if [ -x .venv/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then exit 0; fi

uv=$(tools/uv.sh)
export VIRTUAL_ENV=$PWD/.venv
[ -x .venv/bin/python ] || "$uv" venv --quiet --python ">=3.11" .venv
# offline first: with a warm cache this takes a second and asks nobody
"$uv" pip sync --compile-bytecode --quiet --offline --require-hashes requirements.lock 2>/dev/null ||
  "$uv" pip sync --compile-bytecode --quiet --require-hashes requirements.lock
"$uv" pip install --quiet --offline --no-deps -e . 2>/dev/null || "$uv" pip install --quiet --no-deps -e .
echo "$want" >"$stamp"
