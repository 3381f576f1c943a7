#!/usr/bin/env bash
# The storm in one command: set-up, build, a private PostgreSQL and RabbitMQ, three services, and tests/chaos, which
# orders, breaks whatever it can, lets everything come to rest and judges. Leaves nothing running.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
readonly root
readonly build=$root/build
# shellcheck source=lib/private_run.sh
source "$root/scripts/lib/private_run.sh"

usage() {
  cat <<'USAGE'
usage: scripts/chaos.sh [options]

Orders go on while services are killed and halted, sessions ended, PostgreSQL and RabbitMQ killed and started again,
alarms raised, queues deleted, and the network cut and stalled, at random and one over the other. Then the faults end:
every saga must end within a bound, and three databases say whether anything was lost or happened twice.

  --minutes N   how long the storm lasts (default 1)
  --seed N      the same orders and faults again (default: random, printed)
  --rate N      orders per second (default 20)
  --cluster     a RabbitMQ, or a Kafka, of three nodes, which fail one at a time
  --transport T rabbitmq (default); kafka; postgres: messages go from database to database, and nothing befalls a broker
  --only KIND   only faults of that kind (the report lists them)
  --calm S      how many seconds may pass afterwards in which no saga ends, until all have (default 120)
  --gateway     a payment provider charges, which misbehaves now and then; its ledger must say what the orders say
  --json FILE   write the figures to FILE (default build/chaos.json)
  --help        this text

Exit status: 0 if all is well, 1 if anything is wrong, 2 for wrong options. Of a failed run the services' logs stay in
build/chaos-failed-logs.
USAGE
}

run_name=chaos
json=$build/chaos.json
cluster=
transport=rabbitmq
arguments=()
while (($# > 0)); do
  split_option "$@"
  case $flag in
    -h | --help) usage && exit 0 ;;
    --cluster)
      cluster=1
      shift
      continue
      ;;
    --gateway)
      arguments+=(--gateway "$build/tools/gateway")
      shift
      continue
      ;;
    --transport) need_value && transport=$value arguments+=("$flag" "$value") ;;
    --minutes | --seed | --rate | --only | --calm) need_value && arguments+=("$flag" "$value") ;;
    --json) need_value && json=$(realpath -m -- "$value") ;;
    *) usage_error "unknown option '$flag'" ;;
  esac
  shift "$rest"
done

# shellcheck disable=SC2317 # called when the run ends
before_stack_stops() {
  if [[ $transport == kafka ]]; then
    # What a record that is missing has come to: whether it is in its topic, and what its group has settled.
    find "$folder/kafka" -type d \( -name 'skald.*' -o -name '__consumer_offsets-*' \) -print0 |
      tar --create --gzip --null --files-from - --file "$folder/logs/topics.tar.gz" 2>/dev/null || true
    "$root/scripts/kafka.sh" down --purge "$folder/kafka" >"$folder/logs/kafka-down.log" 2>&1
  elif [[ $cluster ]]; then "$root/scripts/broker_cluster.sh" down "$folder/cluster" >"$folder/logs/cluster-down.log" 2>&1; fi
}

begin_run chaos
build_for_run "$build" RelWithDebInfo order_service shipping_service gateway order_storm
unset SKALD_HTTP_LISTEN
kept_settings="${!SKALD_*}"
start_private_stack
if [[ $cluster || $transport != rabbitmq ]]; then "$root/scripts/stack.sh" stop "$folder/stack" rabbitmq 2>/dev/null; fi
if [[ $transport == kafka ]]; then
  say 'starting Kafka'
  exports=$("$root/scripts/kafka.sh" up --nodes "$((cluster ? 3 : 1))" "$folder/kafka" 2>"$folder/logs/kafka-up.log") || {
    cat "$folder/logs/kafka-up.log" >&2
    exit 1
  }
  eval "$exports"
  arguments+=(--cluster-script "$root/scripts/kafka.sh" --cluster "$folder/kafka")
elif [[ $cluster ]]; then
  say 'starting three RabbitMQ nodes'
  exports=$("$root/scripts/broker_cluster.sh" up "$folder/cluster" 2>"$folder/logs/cluster-up.log") || {
    cat "$folder/logs/cluster-up.log" >&2
    exit 1
  }
  eval "$exports"
  arguments+=(--cluster-script "$root/scripts/broker_cluster.sh" --cluster "$folder/cluster")
fi

run_driver "$build/tests/chaos/order_storm" --services "$build/examples/order_saga" --logs "$folder/logs" --json "$json" \
  --stack-script "$root/scripts/stack.sh" --stack "$folder/stack" --commit "$(commit_of_checkout)" ${arguments[@]+"${arguments[@]}"}
if ((code < 2)); then say "the figures are in $json"; fi
exit "$code"
