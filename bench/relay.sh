#!/usr/bin/env bash
# What the relay and its publisher can do. Builds (Release), starts a private PostgreSQL and RabbitMQ, compares the publisher
# with one written by hand, and lets the relay move a backlog, with and without a snapshot that another session holds.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
readonly root
readonly build=$root/build/bench-release

usage() {
  cat <<'USAGE'
usage: bench/relay.sh [options]

Prints messages per second of a publisher written by hand over rabbitmq-c and of Skald's, in turn, and rows per second of
a relay that finds a backlog: as a whole, and for each tenth of it, which shows whether it stays steady.

  --rows N      of the backlog (default 1000000)
  --messages N  for each figure of a publisher (default 100000)
  --rounds N    of each publisher (default 3)
  --json FILE   write the figures to FILE (default build/relay.json)
  --help        this text

Nothing else should run on the machine meanwhile. Exit status: 0 measured, 1 something went wrong, 2 wrong options.
USAGE
}

fail() {
  printf 'relay: error: %s\n' "$1" >&2
  exit "${2:-1}"
}

arguments=(--rows 1000000 --messages 100000 --rounds 3) json=$root/build/relay.json
while (($# > 0)); do
  flag=$1 value=${2-}
  [[ $flag == --*=* ]] && value=${flag#*=} flag=${flag%%=*} && set -- "$flag" "$value" "${@:2}"
  case $flag in
    -h | --help) usage && exit 0 ;;
    --rows | --messages | --rounds)
      [[ $value =~ ^[1-9][0-9]{0,8}$ ]] || fail "$flag needs a whole number from 1, not '$value'" 2
      arguments+=("$flag" "$value")
      ;;
    --json) [[ $value ]] && json=$(realpath -m -- "$value") || fail '--json needs a FILE' 2 ;;
    *) fail "unknown option '$flag' (--help lists the options)" 2 ;;
  esac
  shift 2
done

clean_up() {
  local code=$?
  trap '' INT TERM HUP
  trap - EXIT
  set +e
  if ((code == 1)); then tail -n 20 "$folder"/*.log >&2; fi
  "$root/scripts/stack.sh" down --purge "$folder/stack" >/dev/null 2>&1
  rm -rf -- "$folder"
  exit "$code"
}

mkdir -p -- "$build"
folder=$(mktemp -d "$root/build/relay.XXXXXX")
chmod 755 "$folder" # the servers may run as another user
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

"$root/scripts/setup.sh"
printf 'relay: building in %s\n' "$build"
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSKALD_BUILD_TESTS=OFF >"$folder/build.log" 2>&1
cmake --build "$build" --target relay_bench skald_cli >>"$folder/build.log" 2>&1
printf 'relay: starting a private PostgreSQL and RabbitMQ in %s\n' "$folder/stack"
unset "${!PG@}" "${!SKALD_@}" DATABASE_URL DATABASE_URL_FILE AMQP_URL_FILE
eval "$("$root/scripts/stack.sh" up "$folder/stack" 2>"$folder/stack.log")"
export DATABASE_URL=$DATABASE_URL_ORDERS
"$build/tools/skald" migrate >"$folder/migrate.log"
"$build/bench/relay_bench" "${arguments[@]}" --json "$json"
printf 'relay: the figures are in %s\n' "$json"
