#!/bin/sh
# Installs the older Spark that deltasql supports, pinned, with Delta's jars for it, into
# .tools/spark41; what is there is kept. Says in one line what came of it.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
place=$root/.tools/spark41
log=$(mktemp) && trap 'rm -f "$log"' EXIT

if [ -f "$place/python/pyspark/version.py" ]; then
  echo "spark 4.1: there"
elif uv=$("$root/tools/uv.sh" 2>"$log") && rm -rf "$place/python.new" &&
  "$uv" pip install --quiet --compile-bytecode --python "$root/.venv/bin/python" \
    --target "$place/python.new" pyspark==4.1.4 >"$log" 2>&1; then
  rm -rf "$place/python" && mv "$place/python.new" "$place/python"
  echo "spark 4.1: installed"
else
  echo "spark 4.1: not installed, $(tail -n 1 "$log")"
fi
echo "for spark 4.1, $("$root/tools/delta_jars.sh" 4.1 "$place/jars")"
