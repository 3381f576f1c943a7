#!/usr/bin/env bash
# Does the retention's sweep disturb a running load? Builds (Release), starts a private PostgreSQL and RabbitMQ, and runs
# build/bench-release/bench/sweep_bench against them. Leaves nothing running.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
readonly root
readonly build=$root/build/bench-release
# shellcheck source=../scripts/lib/private_run.sh
source "$root/scripts/lib/private_run.sh"

usage() {
  cat <<'USAGE'
usage: bench/sweep.sh [options]

Runs the order example at a constant rate, in turn (a) with the sweep off and (b) with the sweep on and many old ended
sagas in each of the three databases, and prints for each phase how long HTTP answers took, how long sagas took to
complete, and how many old sagas were swept per second. A phase ends when all of its own sagas have completed and, in
(b), no row of an old one is left anywhere; anything else is an error. 100,000 of them take some ten minutes.

  --old N      old sagas for each phase (b) (default 100000)
  --seconds N  of load in each phase (default 60)
  --rate N     orders per second (default 50)
  --rounds N   how often (a) and (b) run in turn (default 2)
  --json FILE  write the figures to FILE (default build/sweep.json)
  --help       this text

Nothing else should run on the machine meanwhile. Exit status: 0 measured, 1 something went wrong, 2 wrong options. Of a
failed run the services' logs stay in build/sweep-failed-logs.
USAGE
}

run_name=sweep
json=$root/build/sweep.json
arguments=()
while (($# > 0)); do
  split_option "$@"
  case $flag in
    -h | --help) usage && exit 0 ;;
    --old | --seconds | --rate | --rounds)
      [[ $value =~ ^[0-9]{1,7}$ ]] || fail "$flag needs a whole number, not '$value'" 2
      arguments+=("$flag" "$((10#$value))")
      ;;
    --json) need_value && json=$(realpath -m -- "$value") ;;
    *) usage_error "unknown option '$flag'" ;;
  esac
  shift "$rest"
done

begin_run sweep
build_for_run "$build" Release order_service payment_service shipping_service sweep_bench
start_private_stack
run_driver "$build/bench/sweep_bench" --services "$build/examples/order_saga" --logs "$folder/logs" --json "$json" \
  --commit "$(commit_of_checkout)" ${arguments[@]+"${arguments[@]}"}
if ((code == 0)); then say "the figures are in $json"; fi
# A value out of its range is said by the driver, with a status of CLI11's own.
if ((code > 2 && code < 128)); then code=2; fi
exit "$code"
