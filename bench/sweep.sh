#!/usr/bin/env bash
# Does the retention's sweep disturb a running load? Builds (Release), starts a private PostgreSQL and RabbitMQ, and runs
# build/bench-release/bench/sweep_bench against them. Leaves nothing running.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
readonly root
readonly build=$root/build/bench-release

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

json=$root/build/sweep.json
arguments=()
while (($# > 0)); do
  flag=$1 value=${2-}
  if [[ $flag == --*=* ]]; then
    value=${flag#*=} flag=${flag%%=*}
    set -- "$flag" "$value" "${@:2}"
  fi
  case $flag in
    -h | --help) usage && exit 0 ;;
    --old | --seconds | --rate | --rounds)
      [[ $value =~ ^[0-9]{1,7}$ ]] || { printf "sweep: error: %s needs a whole number, not '%s'\n" "$flag" "$value" >&2 && exit 2; }
      arguments+=("$flag" "$((10#$value))")
      ;;
    --json)
      [[ $value ]] || { printf 'sweep: error: --json needs a FILE\n' >&2 && exit 2; }
      json=$(realpath -m -- "$value")
      ;;
    *)
      printf "sweep: error: unknown option '%s' (--help lists the options)\n" "$flag" >&2
      exit 2
      ;;
  esac
  shift 2
done

say() { printf 'sweep: %s\n' "$*"; }

driver=
clean_up() {
  local code=$?
  trap '' INT TERM HUP
  trap - EXIT
  set +e
  if [[ $driver ]]; then kill -TERM "$driver" 2>/dev/null && wait "$driver"; fi
  "$root/scripts/stack.sh" down --purge "$folder/stack" >"$folder/logs/stack-down.log" 2>&1
  if ((code == 1)); then
    rm -rf -- "$root/build/sweep-failed-logs"
    mv -- "$folder/logs" "$root/build/sweep-failed-logs"
    say "the logs of this run are in $root/build/sweep-failed-logs"
  fi
  rm -rf -- "$folder"
  exit "$code"
}

mkdir -p -- "$build"
folder=$(mktemp -d "$root/build/sweep.XXXXXX")
chmod 755 "$folder" # the servers may run as another user
mkdir "$folder/logs"
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

"$root/scripts/setup.sh"
say "building in $build"
if ! { cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSKALD_BUILD_TESTS=OFF &&
  cmake --build "$build" --target order_service payment_service shipping_service sweep_bench; } >"$folder/logs/build.log" 2>&1; then
  tail -n 40 "$folder/logs/build.log" >&2
  exit 1
fi
say "starting a private PostgreSQL and RabbitMQ in $folder/stack"
unset "${!PG@}" "${!SKALD_@}" DATABASE_URL DATABASE_URL_FILE AMQP_URL_FILE
exports=$("$root/scripts/stack.sh" up "$folder/stack" 2>"$folder/logs/stack-up.log") || {
  cat "$folder/logs/stack-up.log" >&2
  exit 1
}
eval "$exports"

commit=$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)
code=0
"$build/bench/sweep_bench" --services "$build/examples/order_saga" --logs "$folder/logs" --json "$json" --commit "$commit" \
  ${arguments[@]+"${arguments[@]}"} &
driver=$!
wait "$driver" || code=$?
driver=
if ((code == 0)); then say "the figures are in $json"; fi
# A value out of its range is said by the driver, with a status of CLI11's own.
if ((code > 2 && code < 128)); then code=2; fi
exit "$code"
