#!/usr/bin/env bash
# The storm in one command: set-up, build, a private PostgreSQL and RabbitMQ, three services, and tests/chaos, which
# orders, breaks whatever it can, lets everything come to rest and judges. Leaves nothing running.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
readonly root
readonly build=$root/build

usage() {
  cat <<'USAGE'
usage: scripts/chaos.sh [options]

Orders go on while services are killed and halted, sessions ended, PostgreSQL and RabbitMQ killed and started again,
alarms raised, queues deleted, and the network cut and stalled, at random and one over the other. Then the faults end:
every saga must end within a bound, and three databases say whether anything was lost or happened twice.

  --minutes N   how long the storm lasts (default 1)
  --seed N      the same orders and faults again (default: random, printed)
  --rate N      orders per second (default 20)
  --cluster     a RabbitMQ of three nodes, which fail one at a time
  --only KIND   only faults of that kind (the report lists them)
  --calm S      how many seconds everything may take to come to rest afterwards (default 120)
  --json FILE   write the figures to FILE (default build/chaos.json)
  --help        this text

Exit status: 0 if all is well, 1 if anything is wrong, 2 for wrong options. Of a failed run the services' logs stay in
build/chaos-failed-logs.
USAGE
}

json=$build/chaos.json
cluster=
arguments=()
while (($# > 0)); do
  flag=$1 value=${2-}
  if [[ $flag == --*=* ]]; then
    value=${flag#*=} flag=${flag%%=*}
    set -- "$flag" "$value" "${@:2}"
  fi
  case $flag in
    -h | --help) usage && exit 0 ;;
    --cluster)
      cluster=1
      shift
      continue
      ;;
    --minutes | --seed | --rate | --only | --calm) arguments+=("$flag" "$value") ;;
    --json) json=$(realpath -m -- "$value") ;;
    *)
      printf "chaos: error: unknown option '%s' (--help lists the options)\n" "$flag" >&2
      exit 2
      ;;
  esac
  [[ $value ]] || { printf 'chaos: error: %s needs a value\n' "$flag" >&2 && exit 2; }
  shift 2
done

say() { printf 'chaos: %s\n' "$*"; }

driver=
clean_up() {
  local code=$?
  trap '' INT TERM HUP
  trap - EXIT
  set +e
  if [[ $driver ]]; then kill -TERM "$driver" 2>/dev/null && wait "$driver"; fi
  if [[ $cluster ]]; then "$root/scripts/broker_cluster.sh" down "$folder/cluster" >"$folder/logs/cluster-down.log" 2>&1; fi
  "$root/scripts/stack.sh" down --purge "$folder/stack" >"$folder/logs/stack-down.log" 2>&1
  if ((code == 1)); then
    rm -rf -- "$build/chaos-failed-logs"
    mv -- "$folder/logs" "$build/chaos-failed-logs"
    say "the logs of this run are in $build/chaos-failed-logs"
  fi
  rm -rf -- "$folder"
  exit "$code"
}

mkdir -p -- "$build"
folder=$(mktemp -d "$build/chaos.XXXXXX")
chmod 755 "$folder" # the servers may run as another user
mkdir "$folder/logs"
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

"$root/scripts/setup.sh"
say "building in $build"
if ! { cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo &&
  cmake --build "$build" --target order_service payment_service shipping_service order_storm; } >"$folder/logs/build.log" 2>&1; then
  tail -n 40 "$folder/logs/build.log" >&2
  exit 1
fi
say "starting a private PostgreSQL and RabbitMQ in $folder/stack"
unset "${!PG@}" DATABASE_URL DATABASE_URL_FILE AMQP_URL_FILE SKALD_HTTP_LISTEN
exports=$("$root/scripts/stack.sh" up "$folder/stack" 2>"$folder/logs/stack-up.log") || {
  cat "$folder/logs/stack-up.log" >&2
  exit 1
}
eval "$exports"
if [[ $cluster ]]; then
  say 'starting three RabbitMQ nodes'
  "$root/scripts/stack.sh" stop "$folder/stack" rabbitmq 2>/dev/null
  exports=$("$root/scripts/broker_cluster.sh" up "$folder/cluster" 2>"$folder/logs/cluster-up.log") || {
    cat "$folder/logs/cluster-up.log" >&2
    exit 1
  }
  eval "$exports"
  arguments+=(--cluster-script "$root/scripts/broker_cluster.sh" --cluster "$folder/cluster")
fi

commit=$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)
code=0
"$build/tests/chaos/order_storm" --services "$build/examples/order_saga" --logs "$folder/logs" --json "$json" \
  --stack-script "$root/scripts/stack.sh" --stack "$folder/stack" --commit "$commit" ${arguments[@]+"${arguments[@]}"} &
driver=$!
wait "$driver" || code=$?
driver=
if ((code < 2)); then say "the figures are in $json"; fi
exit "$code"
