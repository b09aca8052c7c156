#!/usr/bin/env bash
# Run pytest and keep what it says: when, with which version, what passed and how long it took.
# Usage: kept_log.sh FILE PYTEST [ARGUMENT ...]
set -euo pipefail
file=$1
shift
{
    echo "# $(date -u +%Y-%m-%d) deltasql at $(git rev-parse --short HEAD)"
    echo "# pytest ${*:2}"
    "$@" -v --no-header --durations=25 -p no:cacheprovider 2>&1 | sed -u "s|$PWD/||g"
} | tee "$file"
