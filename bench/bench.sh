#!/usr/bin/env bash
# `skald-bench` in one command: builds (Release), starts a private PostgreSQL and RabbitMQ, measures, leaves nothing running.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
readonly root
readonly build=$root/build/bench-release
# shellcheck source=../scripts/lib/private_run.sh
source "$root/scripts/lib/private_run.sh"

usage() {
  cat <<'USAGE'
usage: bench/bench.sh [options of `skald-bench`]

Builds, starts a private PostgreSQL and RabbitMQ, and runs `skald-bench` against them with these options, for instance

  bench/bench.sh --baseline --scenario throughput
  bench/bench.sh --scenario latency --rates 50,300
  SKALD_LANES=8 bench/bench.sh --scenario throughput     # the settings of the services are those of the environment

`bench/bench.sh --help-options` lists them all (it builds first). The figures are written to build/bench.json and the plots
to build/bench-plots, unless --json and --svg say otherwise. All scenarios at their full size take hours, some ten GiB of
disk, and want a machine on which nothing else runs.

Exit status: 0 measured, 1 something went wrong (the services' logs stay in build/bench-failed-logs), 2 wrong options.
USAGE
}

arguments=()
kafka=
json=$root/build/bench.json plots=$root/build/bench-plots
for ((i = 1; i <= $#; ++i)); do
  case ${!i} in
    -h | --help) usage && exit 0 ;;
    --help-options) arguments+=(--help) ;;
    --json=* | --svg=*) arguments+=("${!i%%=*}" "$(realpath -m -- "${!i#*=}")") ;;
    --json | --svg)
      arguments+=("${!i}")
      ((++i <= $#)) && arguments+=("$(realpath -m -- "${!i}")")
      ;;
    *)
      arguments+=("${!i}")
      if [[ ${!i} == *kafka* || ${!i} == --transport=all ]]; then kafka=1; fi
      j=$((i - 1))
      if [[ ${!i} == all && ${!j} == --transport ]]; then kafka=1; fi
      ;;
  esac
done

# shellcheck disable=SC2317 # called when the run ends
before_stack_stops() {
  if [[ -d $folder/kafka ]]; then "$root/scripts/kafka.sh" down --purge "$folder/kafka" >"$folder/logs/kafka-down.log" 2>&1; fi
}

begin_run bench
# All settings that the caller has made for the services apply.
kept_settings="${!SKALD_*}"
build_for_run "$build" Release skald_bench
for argument in ${arguments[@]+"${arguments[@]}"}; do
  if [[ $argument == --help ]]; then
    "$build/tools/skald-bench" --help
    exit 0
  fi
done
start_private_stack
if [[ $kafka ]]; then
  "$root/scripts/setup.sh" --kafka
  say "starting a private Kafka in $folder/kafka"
  exports=$("$root/scripts/kafka.sh" up "$folder/kafka" 2>"$folder/logs/kafka-up.log") || {
    cat "$folder/logs/kafka-up.log" >&2
    exit 1
  }
  eval "$exports"
fi
run_driver "$build/tools/skald-bench" --logs "$folder/logs" --json "$json" --svg "$plots" --commit "$(commit_of_checkout)" \
  ${arguments[@]+"${arguments[@]}"}
exit "$code"
