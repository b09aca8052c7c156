#!/bin/sh
# Prints the home of a Java that Spark can run on: JAVA_HOME, else the java on the PATH, else the
# one that came with `make setup` from PyPI. Fails, with the reason, where there is none.
root=$(cd "$(dirname "$0")/.." && pwd)
exec "$root/.venv/bin/python" -m deltasql.spark_runtime.java
