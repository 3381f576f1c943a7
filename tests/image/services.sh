#!/usr/bin/env bash
# The image at work: run by scripts/image.sh in a network and a tree of processes of its own, which end with it. Three
# services in containers with PostgreSQL and RabbitMQ, as docker/compose.yaml limits them, by podman; one of them with
# TLS; then the compose file itself, by podman-compose. podman leaves the asking for health to systemd, so it is asked
# for here.
#
#     services.sh FOLDER     one that is removed afterwards
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../.." && pwd)
folder=$1
# As docker/compose.yaml, and stricter than podman's --read-only, which has writable folders in memory.
limits=(--read-only --read-only-tmpfs=false --cap-drop ALL --security-opt no-new-privileges)

say() { printf 'image test: %s\n' "$*"; }
fail() {
  printf 'image test: error: %s\n' "$*" >&2
  exit 1
}

# What containers said, for whoever looks for the mistake. Before they are gone.
keep_logs() {
  local code=$? name
  trap - EXIT
  ((code == 0)) || for name in $(podman ps --all --format '{{.Names}}'); do
    podman logs "$name" >"$folder/logs/container-$name.log" 2>&1 || true
  done
  exit "$code"
}

# eventually WHAT COMMAND...: within two minutes, more than a slow machine needs.
eventually() {
  local what=$1 until=$((SECONDS + 120))
  shift
  until "$@" >"$folder/logs/eventually.log" 2>&1; do
    ((SECONDS < until)) || { tail -n 5 "$folder/logs/eventually.log" >&2 && fail "not $what in two minutes"; }
    sleep 0.5
  done
}

# podman's complaints that there is no systemd, once for each container, only hide what matters.
podman() { command podman "$@" 2> >(grep -v 'systemd connection\|connect to syslog' >&2); }

health() { podman inspect --format '{{.State.Health.Status}}' "$1"; }
healthy() {
  eventually "healthy: $1" podman healthcheck run "$1"
  [[ $(health "$1") == healthy ]] || fail "$1 was found healthy, and is '$(health "$1")'"
}
not_healthy() {
  if podman healthcheck run "$1" >"$folder/logs/unhealthy.log" 2>&1; then fail "$1 says that it is ready $2"; fi
}

# sql CONTAINER DATABASE TEXT
sql() { podman exec "$1" psql -X -At -v ON_ERROR_STOP=1 -U postgres "$2" -c "$3"; }

# Asked of the kernel about its first process, since the image has nothing to ask it with.
within_limits() {
  local found pid
  pid=$(podman inspect --format '{{.State.Pid}}' "$1")
  found=$(
    awk '/^Uid:/ { print $2 }' "/proc/$pid/status"
    sed -n 's/^\(CapEff\|CapPrm\|CapBnd\|NoNewPrivs\):\t/\1 /p' "/proc/$pid/status"
    awk '$2 == "/" { print $4 }' "/proc/$pid/mounts" | cut -d, -f1
    for child in $(pgrep -P "$pid" || true); do grep -s '^State:.Z' "/proc/$child/status" || true; done
  )
  [[ $found == $'10001\nCapPrm 0000000000000000\nCapEff 0000000000000000\nCapBnd 0000000000000000\nNoNewPrivs 1\nro' ]] ||
    fail "$1 has another user, capabilities, a writable root or dead processes that nobody took leave of:
$found"
}

# ask PATH [CURL'S ARGUMENTS...]: at `entry`.
ask() { curl -sS --fail-with-body --max-time 60 "${trust[@]}" "$entry$1" "${@:2}"; }
entry=http://127.0.0.1:8080
trust=()

# order KEY POSTGRES LEFT: one order goes through, and so much money is left.
order() {
  local body='{"customer":"ada","sku":"tea","quantity":1,"cents":1200}' state='' left tries
  eventually 'answered 202' ask /orders -H "Idempotency-Key: $1" -d "$body"
  # The network's names are away for a while when a container has come or gone.
  for ((tries = 0; tries < 4; tries++)); do
    state=$(ask "/sagas/$1?wait=30")
    [[ ${state%%'"steps"'*} != *'"status":"completed"'* ]] || break
  done
  [[ ${state%%'"steps"'*} == *'"status":"completed"'* ]] || fail "$1 did not complete: $state"
  left=$(sql "$2" payments "SELECT cents FROM wallet WHERE customer = 'ada'")
  [[ $left == "$3" ]] || fail "$1 left $left cents in the wallet, and not $3"
}

furnish() {
  sql "$1" payments "INSERT INTO wallet VALUES ('ada', 10000)" >>"$folder/logs/sql.log"
  sql "$1" shipping "INSERT INTO stock VALUES ('tea', 5)" >>"$folder/logs/sql.log"
}

# service NAME PROGRAM [PODMAN'S ARGUMENTS...]
service() {
  podman run --detach --name "$1" --network skald "${limits[@]}" --env "DATABASE_URL=postgresql://$1:$1@postgres/$1" \
    --env AMQP_URL=amqp://skald:skald@rabbitmq:5672 "${@:3}" localhost/skald-order-saga "$2" >>"$folder/logs/run.log"
}

# SIGTERM ends it in order, by itself.
stops() {
  local code
  podman stop --time 30 "$1" >>"$folder/logs/run.log"
  code=$(podman inspect --format '{{.State.ExitCode}}' "$1")
  [[ $code == 0 ]] || fail "$1 ended with $code after SIGTERM"
  podman rm "$1" >>"$folder/logs/run.log"
}

start_servers() {
  podman run --detach --name postgres --network skald --env POSTGRES_PASSWORD=postgres \
    --volume "$root/docker/databases.sql:/docker-entrypoint-initdb.d/databases.sql:ro" \
    --health-cmd 'pg_isready -h 127.0.0.1 -U postgres -d shipping' localhost/postgres:15-bookworm >>"$folder/logs/run.log"
  podman run --detach --name rabbitmq --hostname rabbitmq --network skald --env RABBITMQ_DEFAULT_USER=skald \
    --env RABBITMQ_DEFAULT_PASS=skald --health-cmd 'rabbitmq-diagnostics -q check_port_connectivity' \
    localhost/rabbitmq:3.13 >>"$folder/logs/run.log"
  healthy postgres
  healthy rabbitmq
}

by_podman() {
  local name
  say 'three services by podman'
  podman network create skald >>"$folder/logs/run.log"
  service orders order_service --publish 127.0.0.1:8080:8080
  not_healthy orders 'while no database is there'
  start_servers
  service payments payment_service
  service shipping shipping_service
  for name in orders payments shipping; do healthy "$name" && within_limits "$name"; done
  furnish postgres
  order order-1 postgres 8800
  podman run --rm --network skald "${limits[@]}" --env DATABASE_URL=postgresql://orders:orders@postgres/orders \
    localhost/skald-order-saga skald saga show order-1 | grep -q completed || fail 'skald saga show: it does not know order-1'
}

# with_tls KEY LEFT [PODMAN'S ARGUMENTS...]: orders speak HTTPS alone, and their health is found all the same.
with_tls() {
  stops orders
  service orders order_service --publish 127.0.0.1:8080:8080 --volume "$folder/tls:/etc/skald:ro" \
    --env SKALD_HTTP_TLS_CERTIFICATE=/etc/skald/chain.pem --env SKALD_HTTP_TLS_KEY=/etc/skald/key.pem "${@:3}"
  healthy orders
  order "$1" postgres "$2"
  within_limits orders
}

by_tls() {
  mkdir "$folder/tls"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost -keyout "$folder/tls/key.pem" -out "$folder/tls/chain.pem" 2>"$folder/logs/openssl.log"
  chown -R 10001 "$folder/tls"
  entry=https://localhost:8080 trust=(--cacert "$folder/tls/chain.pem" --resolve localhost:8080:127.0.0.1)
  say 'orders with TLS, and health at its own address'
  with_tls order-2 7600
  say 'orders with TLS, and health where clients ask'
  with_tls order-3 6400 --env SKALD_HEALTH_LISTEN=off
  if curl -sS --max-time 10 http://127.0.0.1:8080/readyz >"$folder/logs/plain.log" 2>&1; then fail 'orders speak plain HTTP as well'; fi
  stops shipping
  stops payments
  podman stop --time 30 postgres >>"$folder/logs/run.log"
  not_healthy orders 'over TLS while the database is away'
  podman start postgres >>"$folder/logs/run.log"
  healthy orders
  podman rm --force --time 0 --all --volumes >>"$folder/logs/run.log"
  entry=http://127.0.0.1:8080 trust=()
}

compose() { podman-compose --project-name saga --file "$root/docker/compose.yaml" "$@" >>"$folder/logs/compose.log" 2>&1; }

# Only asked what it would build: the image is there.
builds_once() {
  local builds
  podman-compose --project-name saga --file "$root/docker/compose.yaml" --dry-run up --build --detach >"$folder/logs/dry-run.log" 2>&1
  builds=$(grep '^podman build ' "$folder/logs/dry-run.log") || fail 'docker/compose.yaml builds nothing'
  [[ $(wc -l <<<"$builds") == 1 && $builds == *' -t skald-order-saga '* && $builds == */Dockerfile* ]] ||
    fail "docker/compose.yaml does not build one image, once:
$builds"
}

by_compose() {
  local name
  say 'docker/compose.yaml by podman-compose'
  builds_once
  compose up --detach || { tail -n 20 "$folder/logs/compose.log" >&2 && fail 'podman-compose up'; }
  for name in postgres rabbitmq orders payments shipping; do healthy "saga_${name}_1"; done
  for name in orders payments shipping; do within_limits "saga_${name}_1"; done
  furnish saga_postgres_1
  order order-1 saga_postgres_1 8800
  compose down --volumes || fail 'podman-compose down'
  [[ ! $(podman ps --all --quiet) ]] || fail 'podman-compose down left containers'
}

main() {
  trap keep_logs EXIT
  ip link set lo up
  by_podman
  by_tls
  by_compose
  say "the image does what it should; that took $SECONDS s"
}

main
