#!/usr/bin/env bash
# The same saga on DBOS Transact, on Restate and on Skald, in one run on one machine. Not part of CI: npm fetches the peers.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../.." && pwd)
readonly root
readonly build=$root/build/bench-release
# shellcheck source=../../scripts/lib/private_run.sh
source "$root/scripts/lib/private_run.sh"

usage() {
  cat <<'USAGE'
usage: bench/peers/peers.sh [options]

One saga over three databases of one private PostgreSQL (fsync and synchronous_commit on), on each. For DBOS and Restate callers
start the next saga when theirs has completed.

  --scenario NAME  shop: the order example, on wallets and stock that are shared (default); Skald's sagas are started by SQL.
                   inserts: a row in each database; on Skald by as many callers over HTTP as the others have
  --customers N    of the shop (default 50)
  --skus N         of the shop (default 40)
  --sagas N        of the shop on Skald (default 10000)
  --seconds N      of each figure of the others (default 15)
  --callers A,B    at most 250: a service of Skald's refuses more requests at once (default 1,50,200; of the shop 50,200)
  --json FILE      write the figures to FILE, a line each (default build/peers.json)
  --help           this text

Needs node 20 or later and npm, which gets the versions in bench/peers/package.json into build/peers. Exit status: 0
measured, 1 something went wrong, 2 wrong options.
USAGE
}

run_name=peers
scenario=shop customers=50 skus=40 sagas=10000 seconds=15 callers= json=$root/build/peers.json
while (($# > 0)); do
  split_option "$@"
  case $flag in
    -h | --help) usage && exit 0 ;;
    --scenario)
      [[ $value == shop || $value == inserts ]] || usage_error "$flag is shop or inserts, not '$value'"
      scenario=$value
      ;;
    --customers | --skus | --sagas | --seconds)
      [[ $value =~ ^[1-9][0-9]{0,5}$ ]] || usage_error "$flag needs a whole number from 1, not '$value'"
      printf -v "${flag#--}" %s "$value"
      ;;
    --callers)
      [[ $value =~ ^[1-9][0-9]{0,4}(,[1-9][0-9]{0,4})*$ ]] || usage_error "$flag needs whole numbers, not '$value'"
      for count in ${value//,/ }; do ((count <= 250)) || usage_error "$flag: at most 250 callers, not $count"; done
      callers=$value
      ;;
    --json) need_value && json=$(realpath -m -- "$value") ;;
    *) usage_error "unknown option '$flag'" ;;
  esac
  shift "$rest"
done
[[ $callers ]] || { [[ $scenario == shop ]] && callers=50,200 || callers=1,50,200; }
for program in node npm; do command -v "$program" >/dev/null || fail "$program is missing: install Node.js 20 or later"; done

begin_run peers
build_for_run "$build" Release skald_bench
say "fetching the peers into $root/build/peers"
mkdir -p "$root/build/peers"
cp "$root"/bench/peers/*.mjs "$root/bench/peers/package.json" "$root/build/peers/"
(cd "$root/build/peers" && npm install --ignore-scripts --no-audit --no-fund --no-package-lock) >"$folder/logs/npm.log" 2>&1 || {
  tail -n 20 "$folder/logs/npm.log" >&2
  exit 1
}
start_private_stack

# Databases of the peers' own, without Skald's tables.
readonly server=${DATABASE_URL%/*}
for name in orders payments shipping system; do
  psql -qX "$DATABASE_URL" -c "CREATE DATABASE peer_$name"
done
urls=(DATABASE_URL_ORDERS="$server/peer_orders" DATABASE_URL_PAYMENTS="$server/peer_payments"
  DATABASE_URL_SHIPPING="$server/peer_shipping" DATABASE_URL_SYSTEM="$server/peer_system")
mkdir "$folder/restate"

run_peer() {
  say "measuring $1"
  cd "$root/build/peers"
  run_driver env "${urls[@]}" RESTATE_FOLDER="$folder/restate" RESTATE_LOGGING=ERROR NODE_NO_WARNINGS=1 \
    node "$1.mjs" --scenario="$scenario" --customers="$customers" --skus="$skus" --seconds="$seconds" --callers="$callers" >>"$folder/figures" 2>"$folder/logs/$1.log"
  if ((code != 0)); then
    tail -n 20 "$folder/logs/$1.log" >&2
    exit 1
  fi
}
run_peer dbos
run_peer restate
cp "$folder/restate/server.log" "$folder/logs/restate-server.log"

# figures_of_skald NAME OPTION...: the first figure of a scenario, as a line in the peers' format.
figures_of_skald() {
  local about=$1
  shift
  run_driver "$build/tools/skald-bench" "$@" --rounds 1 --tcp --logs "$folder/logs" --json "$folder/skald.json" >"$folder/logs/skald.log" 2>&1
  if ((code != 0)); then
    tail -n 20 "$folder/logs/skald.log" >&2
    exit 1
  fi
  node -e '
    const [file, about] = process.argv.slice(1);
    const figure = JSON.parse(require("fs").readFileSync(file)).scenarios[0].phases[0];
    console.log(JSON.stringify({ peer: "Skald", about, sagas: figure.sagas, per_second: figure.sagas_per_second,
      p50_ms: figure.completed_ms?.p50 ?? null, p99_ms: figure.completed_ms?.p99 ?? null }));' "$folder/skald.json" "$about" >>"$folder/figures"
}

say "measuring Skald"
if [[ $scenario == shop ]]; then
  figures_of_skald "$sagas started at once" --scenario shop --customers "$customers" --skus "$skus" --sagas "$sagas"
else
  for count in ${callers//,/ }; do
    figures_of_skald "$count callers" --scenario transports --transport rabbitmq --under-way "$count" --each --seconds "$seconds"
  done
fi

node -e '
  const lines = require("fs").readFileSync(process.argv[1], "utf8").trim().split("\n").map(JSON.parse);
  const cell = (value) => (value == null ? "" : value.toFixed(1)).padStart(10);
  console.log("\n" + "".padEnd(42) + ["sagas/s", "p50 ms", "p99 ms"].map((word) => word.padStart(10)).join(""));
  for (const one of lines) console.log(one.peer.padEnd(16) + one.about.padEnd(26) + cell(one.per_second) + cell(one.p50_ms) + cell(one.p99_ms));
' "$folder/figures"
cp "$folder/figures" "$json"
say "the figures are in $json"
