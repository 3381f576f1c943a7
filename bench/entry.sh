#!/usr/bin/env bash
# How much of PostgreSQL the HTTP entry leaves. Builds (Release), starts a private PostgreSQL and RabbitMQ, and puts the
# same statements under load twice, in turn: by pgbench, and by wrk through a route that inserts one row.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
readonly root
readonly build=$root/build/bench-release
# shellcheck source=../scripts/lib/private_run.sh
source "$root/scripts/lib/private_run.sh"

usage() {
  cat <<'USAGE'
usage: bench/entry.sh [options]

Prints, for each round, transactions per second of pgbench and requests per second of wrk, at the same number of
connections and with the same statements (BEGIN with the claim; an INSERT; the check, the stored answer and COMMIT), and
requests per second of replays. Answers that are not what they should be are counted as wrong, and are an error.

  --seconds N      of load for each figure (default 20)
  --connections N  of wrk, of pgbench, and of the service to its database (default 8)
  --rounds N       (default 3)
  --json FILE      write the figures to FILE (default build/entry.json)
  --help           this text

Needs wrk, and says so where it is missing. Nothing else should run on the machine meanwhile. Exit status: 0 measured, 1
something went wrong, 2 wrong options.
USAGE
}

run_name=entry
seconds=20 connections=8 rounds=3 json=$root/build/entry.json
while (($# > 0)); do
  split_option "$@"
  case $flag in
    -h | --help) usage && exit 0 ;;
    --seconds | --connections | --rounds)
      [[ $value =~ ^[1-9][0-9]{0,3}$ ]] || fail "$flag needs a whole number from 1, not '$value'" 2
      declare "${flag#--}=$value"
      ;;
    --json) need_value && json=$(realpath -m -- "$value") ;;
    *) usage_error "unknown option '$flag'" ;;
  esac
  shift "$rest"
done
command -v wrk >/dev/null || fail 'wrk is missing: apt-get install wrk'

begin_run entry
build_for_run "$build" Release entry_bench
start_private_stack
export DATABASE_URL=$DATABASE_URL_ORDERS

SKALD_HTTP_LANES=$connections "$build/bench/entry_bench" --listen 127.0.0.1:0 >"$folder/logs/service.log" 2>&1 &
driver=$!
address=
for ((i = 0; i < 200 && ${#address} == 0; ++i)); do
  address=$(sed -n 's/.* worker\.started .*http=\([0-9.:]*\).*/\1/p' "$folder/logs/service.log" | head -n 1)
  kill -0 "$driver" 2>/dev/null || fail 'the service did not start'
  sleep 0.1 # until it has logged where it listens
done
[[ $address ]] || fail 'the service did not say where it listens'
until curl -fsS -o "$folder/ready" "http://$address/readyz" 2>"$folder/logs/curl.log"; do sleep 0.1; done

# pgbench prepares, once for each connection, what the service prepares, from the same file.
prepared() {
  printf 'PREPARE %s AS ' "$1"
  awk -v name="$1" '/^-- name: /{ on = $3 == name; next } on && !/^--/' "$root/sql/queries/guard.sql"
  printf ';\n'
}
{
  printf '\\if :prepared = 0\n'
  for name in claim assert_transaction store_response; do prepared "$name"; done
  cat <<'SQL'
PREPARE add_row AS INSERT INTO bench_row (n) VALUES ($1);
\set prepared 1
\endif
\set n random(1, 9000000000000000)
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE \; EXECUTE claim(ARRAY['']::text[], ARRAY['pgbench-:n']::text[], ARRAY['']::text[], ARRAY['\x6bb5b0e2d3f7a5bd6bb5b0e2d3f7a5bd6bb5b0e2d3f7a5bd6bb5b0e2d3f7a5bd']::bytea[], ARRAY[1]::integer[], ARRAY[false]::boolean[], 10, NULL) \gset
EXECUTE add_row(1);
EXECUTE assert_transaction(':transaction') \; EXECUTE store_response('', 'pgbench-:n', 201, 'application/json', '[]', '\x7b22696e736572746564223a317d') \; COMMIT;
SQL
} >"$folder/floor.sql"

rows() { psql -qAtX "$DATABASE_URL" -c 'SELECT count(*) FROM bench_row'; }

# Sets floor: transactions per second.
run_floor() {
  pgbench -n -f "$folder/floor.sql" -D prepared=0 -c "$connections" -j 2 -T "$seconds" "$DATABASE_URL" \
    >"$folder/logs/pgbench.log" 2>&1 || fail 'pgbench failed'
  floor=$(sed -n 's/^tps = \([0-9.]*\).*/\1/p' "$folder/logs/pgbench.log")
  grep -q '^number of failed transactions: 0 ' "$folder/logs/pgbench.log" || fail 'transactions of pgbench failed'
}

# Sets rate, p50 and p99 of one load of wrk's.
run_wrk() {
  local wrong
  LOAD=$1 RUN=$2 KEYS=2000 wrk -t 1 -c "$connections" -d "$3" -s "$root/bench/entry/requests.lua" "http://$address" \
    >"$folder/logs/wrk.log" 2>&1 || fail 'wrk failed'
  read -r _ rate wrong p50 p99 < <(grep '^FIGURES ' "$folder/logs/wrk.log")
  [[ $wrong == 0 ]] || fail "$wrong answers were not what they should be; the last: $(sed -n 's/^LAST WRONG //p' "$folder/logs/wrk.log")"
}

say 'filling the set of keys that are replayed'
run_wrk fill fill 5s
say "$connections connections, $seconds s for each figure"
printf '%-6s %12s %12s %8s %8s %8s %12s %8s %8s\n' round pgbench/s requests/s 'of it' p50/ms p99/ms replays/s times p99/ms
results=()
for ((round = 1; round <= rounds; ++round)); do
  run_floor
  before=$(rows)
  run_wrk fresh "round$round" "${seconds}s"
  fresh=$rate fresh50=$p50 fresh99=$p99
  (($(rows) > before)) || fail 'the requests inserted nothing'
  before=$(rows)
  run_wrk replay - "${seconds}s"
  (($(rows) == before)) || fail 'replays inserted rows'
  share=$(awk -v a="$fresh" -v b="$floor" 'BEGIN { printf "%.2f", a / b }')
  times=$(awk -v a="$rate" -v b="$fresh" 'BEGIN { printf "%.1f", a / b }')
  printf '%-6s %12s %12s %8s %8s %8s %12s %8s %8s\n' "$round" "$floor" "$fresh" "$share" "$fresh50" "$fresh99" "$rate" "$times" "$p99"
  results+=("{\"floor\":$floor,\"fresh\":$fresh,\"share\":$share,\"p50_ms\":$fresh50,\"p99_ms\":$fresh99,\"replays\":$rate,\"times\":$times}")
done
commit=$(commit_of_checkout)
(
  IFS=,
  printf '{"commit":"%s","connections":%s,"seconds":%s,"rounds":[%s]}\n' "$commit" "$connections" "$seconds" "${results[*]}"
) >"$json"
say "the figures are in $json"
