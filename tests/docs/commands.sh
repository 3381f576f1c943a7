#!/usr/bin/env bash
# Runs the commands and the SQL of the pages, as they stand, on a stack of their own: what a reader would type, in that order,
# and what the pages say he sees. Only the port, the folder of the stack and that of the certificate are others.
#
#     tests/docs/commands.sh <build folder>     its programs are used; docs_start is the shipping service of docs/start.md
#     tests/docs/commands.sh --list             every block of the pages that is run here, and where the others are; fails where
#                                               one is neither
# shellcheck source-path=SCRIPTDIR
# shellcheck disable=SC2154 # folder is that of private_run.sh
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../.." && pwd)
# shellcheck source=../../scripts/lib/private_run.sh
source "$root/scripts/lib/private_run.sh"

# PAGE KIND NUMBER: of that kind on that page, from 1.
run_here=(
  'README.md sh 2' 'README.md sh 3'
  'docs/start.md sh 2' 'docs/start.md sh 3' 'docs/start.md sh 4' 'docs/start.md sh 5'
  'docs/http.md sh 1' 'docs/http.md sh 2' 'docs/http.md sh 3'
  'docs/operations.md sql 1' 'docs/duplicates.md sh 1'
  'docs/protocol.md sql 1' 'docs/protocol.md sql 2' 'docs/languages-sql.md sql 1'
  'docs/repair.md sh 1'
  'docs/finding.md sql 1' 'docs/finding.md sql 2' 'docs/finding.md sql 3'
  'docs/retention.md sh 1' 'docs/retention.md sql 1' 'docs/observability.md sql 1'
)
# The same, and where they are run or why they are not.
run_elsewhere=(
  'README.md sh 1|scripts/test.sh in each run of .ci/run, scripts/demo.sh by .ci/run demo'
  'README.md sh 4|tests/install'
  'README.md cmake 1|tests/install'
  'docs/start.md cmake 1|as the one of README.md, which tests/install builds'
  'docs/testing.md cmake 1|tests/install'
  'docs/start.md sh 1|scripts/test.sh'
  'CONTRIBUTING.md sh 1|.ci/run, one after the other'
  'CONTRIBUTING.md sh 2|CI itself, and by hand'
  'CONTRIBUTING.md sh 3|scripts/test.sh'
  'CONTRIBUTING.md sh 4|scripts/test.sh crash'
  'docs/reconciliation.md sh 1|tests/audit/command_test.cpp, with other lists'
  'docs/reconciliation.md sh 2|tests/audit/command_test.cpp'
  'docs/transports.md sh 1|tests/integration/services/transports_test.cpp'
  'docs/transports.md sql 1|tests/conformance/transport_inbox_behaviour_test.cpp'
  'docs/transports.md sql 2|tests/integration/services/transports_test.cpp, with another queue'
  'docs/repair.md sh 2|tests/integration/close_test.cpp, by what the commands call'
  'docs/repair.md sh 3|tests/integration/close_test.cpp, likewise'
  'docs/rehearsal.md sh 1|tests/integration/rehearsal_test.cpp and rehearsal_command_test.cpp, by what the command calls'
  'docs/repair.md sql 1|tests/integration/close_test.cpp, by the same UPDATE'
  'docs/finding.md sh 1|tests/integration/services/finding_test.cpp, with other attributes'
  'docs/finding.md sh 2|tests/integration/services/finding_test.cpp, likewise'
  'docs/finding.md sh 3|tests/integration/services/finding_test.cpp, likewise'
  'docs/install.md sh 1|tests/install/new_project.cmake and tests/packages/inside.sh'
  'docs/install.md sh 2|scripts/packages.sh by .ci/run packages'
  'docs/install.md sh 3|tests/packages/inside.sh'
  'docs/install.md sh 4|tests/packages/inside.sh, by systemd-analyze: a root of its own has no systemd that runs'
  'docs/install.md sh 5|tests/install'
  'docs/install.md sh 6|by hand, Conan with the packages of Debian; of vcpkg its schema alone: neither registry is always in reach'
  'docs/install.md cmake 1|tests/install/as_subproject.cmake'
  'docs/conform.md sh 1|tests/conform/check.sh by scripts/test.sh languages, with the programs of tests/conform'
  'docs/redis.md cmake 1|tests/install'
  'docs/kafka.md cmake 1|tests/install'
  'docs/kafka.md sh 1|tests/integration/services/kafka_test.cpp, with other brokers'
  'docs/kafka.md sh 2|nothing to run it with: the tools of Kafka are not among the jars of the tests'
  'docs/kafka.md sh 3|nothing to run it with: the tools of Kafka are not among the jars of the tests'
  'docs/repair.md sh 4|by hand, with a broker that has the plugin: the stack of the tests has none'
  'docs/external-steps.md sh 1|tests/external/operator_test.cpp, by what the commands call'
  'docs/gateway.md sh 1|tests/gateway, by the same requests'
  'docs/console.md sql 1|tests/console/pages_test.cpp, by the same GRANTs'
  'docs/security.md sh 1|tests/integration/services/permissions_test.cpp'
  'docs/security.md sh 2|tests/integration/services/permissions_test.cpp'
  'docs/security.md sh 3|nothing to run it against: tests/unit/worker_signing_keys_test.cpp reads such files'
  'docker/README.md sh 1|tests/image/services.sh, by podman-compose'
  'docker/README.md sh 2|.ci/run image'
)

# block PAGE KIND NUMBER: its text.
block() {
  awk -v kind="$2" -v wanted="$3" '
    /^ *```/ { if (inside) { inside = 0 } else { inside = 1; taken = ($1 == "```" kind) && ++count == wanted } next }
    inside && taken { print; found = 1 }
    END { exit !found }' "$root/$1" || fail "$1 has no block $3 of the kind $2"
}

# Every block that is meant to be typed, in the form of the tables above.
all_blocks() {
  local page
  cd "$root"
  for page in *.md docker/*.md docs/*.md docs/adr/*.md; do
    awk -v page="$page" '
      /^ *```/ { if (inside) { inside = 0 } else { inside = 1; kind = substr($1, 4)
               if (kind ~ /^(sh|sql|cmake)$/) print page, kind, ++count[kind] } }' "$page"
  done
}

check_tables() {
  local known
  known=$(printf '%s\n' "${run_here[@]}" "${run_elsewhere[@]%%|*}" | sort)
  diff <(all_blocks | sort) <(printf '%s\n' "$known") >/dev/null ||
    fail "these blocks are on the pages (<) or in the tables of tests/docs/commands.sh (>), and not in both:
$(diff <(all_blocks | sort) <(printf '%s\n' "$known") | grep '^[<>]')"
}

# A page's block with our places instead of the page's.
ours() {
  block "$@" | sed -e "s|/tmp/skald-stack|$folder/stack|g" -e "s|127.0.0.1:8080|127.0.0.1:$port|g" \
    -e "s|0.0.0.0:8443|127.0.0.1:$tls_port|g" -e "s|/etc/skald/|$folder/tls/|g"
}

# type_in PAGE KIND NUMBER: as typed into this shell; what it says goes to $said as well.
type_in() {
  local text
  text=$(ours "$@")
  say "$*"
  said=$folder/logs/$(tr -c 'a-z0-9\n' _ <<<"$*")
  eval "$text" >"$said" 2>&1 || { cat "$said" && fail "$*: a command failed"; }
}

# ask DATABASE_URL PAGE NUMBER: a block of SQL.
ask() {
  say "$2 sql $3"
  said=$folder/logs/$(tr -c 'a-z0-9\n' _ <<<"$2 sql $3")
  ours "$2" sql "$3" | psql -X -v ON_ERROR_STOP=1 "$1" >"$said" 2>&1 || { cat "$said" && fail "$2 sql $3: psql failed"; }
}

# says TEXT [TIMES]: what the last block has said holds TEXT, that often where it is given.
says() {
  local times
  times=$(grep -oF -- "$1" "$said" | wc -l)
  if ((times == 0)) || { [[ ${2-} ]] && ((times != $2)); }; then
    cat "$said"
    fail "'$1' is expected ${2:-at least 1} times, and was there $times times"
  fi
}

free_port() {
  local tried
  for tried in {1..50}; do
    tried=$((20000 + RANDOM % 10000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$tried") 2>/dev/null; then echo "$tried" && return 0; fi
  done
  fail 'no free port'
}

before_stack_stops() {
  local pid
  for pid in $(jobs -p); do kill -TERM "$pid" 2>/dev/null && wait "$pid"; done
}

# A checkout as the pages see it: the scripts, and a build; with the page's own shipping service.
furnish() {
  local build=$1
  mkdir -p "$folder/build/examples/order_saga" "$folder/bin" "$folder/tls"
  ln -s "$root/scripts" "$folder/scripts"
  ln -s "$build/examples/order_saga/order_service" "$build/examples/order_saga/payment_service" "$folder/build/examples/order_saga/"
  ln -s "$build/tests/docs/docs_start" "$folder/build/examples/order_saga/shipping_service"
  ln -s "$build/examples/order_saga/order_service" "$build/tools/skald" "$folder/bin/"
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout "$folder/tls/key.pem" \
    -out "$folder/tls/chain.pem" >"$folder/logs/openssl.log" 2>&1
  chmod 600 "$folder/tls/key.pem"
  PATH=$folder/bin:$PATH
  port=$(free_port) tls_port=$(free_port)
  start_private_stack # which the pages find running: where it can't start, it is said here, and no page waits for it
  cd "$folder"
}

place_orders() {
  type_in docs/start.md sh 2
  type_in docs/start.md sh 3
  says 'HTTP/1.1 202' 2
  says 'Idempotency-Replayed: true' 1
  says '"status":"completed"'
  says '8800' 1
  says '| charge' 1
  type_in docs/start.md sh 4
  says '"status":"compensated"'
  says 'out of stock'
  # The same orders, so the same answers.
  type_in README.md sh 2
  says 'HTTP/1.1 202' 1
  type_in README.md sh 3
  says '/problems/key-reused' 1
  says '"status":"compensated"'
}

ask_over_http() {
  type_in docs/http.md sh 2
  says '"status":"completed"'
  says 'HTTP/1.1 409'
  says '/problems/not-cancellable'
  type_in docs/http.md sh 3
  says '202'
  say 'docs/http.md sh 1'
  # shellcheck disable=SC2094
  DATABASE_URL=$DATABASE_URL_ORDERS bash -c "exec env $(ours docs/http.md sh 1)" >"$folder/logs/tls.log" 2>&1 &
  local tls=$!
  said=$folder/logs/tls.log
  until curl -sf --cacert "$folder/tls/chain.pem" --resolve "localhost:$tls_port:127.0.0.1" "https://localhost:$tls_port/livez"; do
    kill -0 "$tls" || { cat "$said" && fail 'docs/http.md sh 1: the service ended'; }
    sleep 0.1
  done
  kill -TERM "$tls" && wait "$tls"
}

operate() {
  export DATABASE_URL=$DATABASE_URL_ORDERS
  type_in docs/repair.md sh 1
  says 'order-1'
  type_in docs/retention.md sh 1
  ask "$DATABASE_URL_ORDERS" docs/retention.md 1
  says 'UPDATE 0'
  for n in 1 2 3; do ask "$DATABASE_URL_ORDERS" docs/finding.md "$n"; done
  ask "$DATABASE_URL_ORDERS" docs/operations.md 1
  ask "$DATABASE_URL_ORDERS" docs/observability.md 1
  ask "$DATABASE_URL_PAYMENTS" docs/protocol.md 1
  # The page shows what claim answers, as comments.
  says "$(block docs/protocol.md sql 1 | sed -n 's/^-- *\( 1 | fresh .*\)/\1/p' | sed 's/^ *//')"
  ask "$DATABASE_URL_PAYMENTS" docs/languages-sql.md 1
  ask "$DATABASE_URL_ORDERS" docs/protocol.md 2
  says 'fresh'
  curl -s "http://127.0.0.1:$port/sagas/order-43?wait=20" >"$folder/logs/order-43"
  said=$folder/logs/order-43
  says '"status":"completed"'
}

# Until it has seen an order go by: then it is asked to end, and says what it has sent.
duplicate() {
  say 'docs/duplicates.md sh 1'
  said=$folder/logs/duplicate.log
  bash -c "exec $(ours docs/duplicates.md sh 1)" >"$said" 2>&1 &
  local duplicator=$! tries
  for ((tries = 0; tries < 200; ++tries)); do
    scripts/stack.sh ctl "$folder/stack" -q list_queues --no-table-headers name | grep -q '^skald.duplicate' && break
    sleep 0.1
  done
  curl -s "http://127.0.0.1:$port/orders" -H 'Idempotency-Key: order-9' -d '{"customer":"ada","sku":"tea","quantity":1,"cents":1}' >/dev/null
  curl -s "http://127.0.0.1:$port/sagas/order-9?wait=20" | grep -q '"status":"completed"' || fail 'order-9 did not complete'
  kill -TERM "$duplicator"
  wait "$duplicator" || { cat "$said" && fail 'docs/duplicates.md sh 1: it did not end well'; }
  says 'duplicate'
}

main() {
  run_name=docs-commands
  if [[ ${1-} == --list ]]; then
    check_tables
    printf '%s\n' "${run_here[@]}" "${run_elsewhere[@]}"
    return
  fi
  [[ ${1-} && -d $1 ]] || usage_error 'the build folder is missing'
  check_tables
  begin_run docs-commands
  furnish "$(cd -- "$1" && pwd)"
  place_orders
  ask_over_http
  operate
  duplicate
  type_in docs/start.md sh 5
  say 'the pages say what happens'
}

main "$@"
