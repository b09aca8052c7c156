#!/bin/sh
# Fetches the two jars with which Spark reads Delta, pinned, into .tools/jars; what is there is kept.
# Says in one line what came of it. Missing tools and a repository that does not answer are told and
# are no failure. `delta_jars.sh --probe` tells by its status whether any jar can be had at all.
# usage: tools/delta_jars.sh [--probe | SPARK FOLDER]: the jars for another Spark, such as 4.1
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
spark=4.2 jars=$root/.tools/jars
[ $# -ne 2 ] || { spark=$1 jars=$2; }
pins=$root/tools/delta_jars.sha256
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
# what else Delta names comes with Spark or serves catalogs that the tests do not use
unneeded='io.unitycatalog:*,io.delta:delta-kernel-*'

by_spark() { # COORDINATES...: Spark's own resolver, which needs no Maven
  submit=$root/.venv/bin/spark-submit
  [ -x "$submit" ] || { echo "Spark is not installed (make setup)"; return 1; }
  JAVA_HOME=$("$root/tools/java_home.sh" 2>&1) || { echo "$JAVA_HOME"; return 1; }
  export JAVA_HOME PYSPARK_PYTHON="$root/.venv/bin/python"
  unset SPARK_HOME # another Spark of this machine has nothing to do with ours
  : >"$work/nothing.py"
  timeout 300 "$submit" --packages "$(echo "$*" | tr ' ' ,)" --exclude-packages "$unneeded" \
    --conf "spark.jars.ivy=$work/ivy" "$work/nothing.py" 2>&1 || return 1
  for jar in "$work"/ivy/jars/*.jar; do
    name=${jar##*/} && mv "$jar" "$work/jars/${name#*_}" # the group comes first in Spark's names
  done
}

by_maven() { # COORDINATES...: Maven's settings may know a mirror that Spark does not
  command -v mvn >/dev/null || return 1
  for one in "$@"; do
    timeout 300 mvn --batch-mode --quiet \
      org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
      "-Dartifact=$one" "-DoutputDirectory=$work/jars" 2>&1 || return 1
  done
}

fetch() { # COORDINATES...
  mkdir -p "$work/jars"
  by_spark "$@" >"$work/log" || by_maven "$@" >>"$work/log"
}

reason() { # the line that names the cause; what comes after it is a stack
  { grep -m 1 -E 'Server access error|not installed|no Java' "$work/log" || tail -n 1 "$work/log"; } |
    sed 's/^[[:space:]]*//'
}

has_pinned() {
  (cd "$1" 2>/dev/null && grep -e "delta-spark_${spark}_" -e delta-storage "$pins" |
    sha256sum --check --status 2>/dev/null)
}

if [ "${1:-}" = --probe ]; then
  fetch org.slf4j:slf4j-api:2.0.17
  exit
fi
if has_pinned "$jars"; then
  echo "delta-spark: there"
elif ! fetch "io.delta:delta-spark_${spark}_2.13:4.4.0" io.delta:delta-storage:4.4.0; then
  echo "delta-spark: not installed, $(reason)"
elif ! has_pinned "$work/jars"; then
  echo "delta-spark: not installed, the repository has other jars than those pinned"
else
  rm -rf "$jars" && mkdir -p "${jars%/*}" && mv "$work/jars" "$jars"
  echo "delta-spark: installed"
fi
