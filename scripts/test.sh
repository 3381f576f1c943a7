#!/usr/bin/env bash
# Set-up, build, a private PostgreSQL and RabbitMQ, and every test; ctest's summary comes last.
#
#   scripts/test.sh [PRESET] [ctest arguments...]
#
# PRESET is one of CMakePresets.json (default: `default`, which builds in build/). With `asan` and `tsan` the tests that
# need no server run: unit and conformance.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
cd "$root"

case ${1:-} in
  -h | --help)
    sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
  '' | -*) preset=default ;;
  *)
    preset=$1
    shift
    ;;
esac

say() { printf '\ntest: %s\n' "$*"; }

say 'set-up'
scripts/setup.sh

say "build ($preset)"
cmake --preset "$preset"
cmake --build --preset "$preset" --parallel "$(nproc)"

build=$root/build
[[ $preset = default ]] || build=$root/build-$preset

if [[ $preset = default ]]; then
  say 'a private PostgreSQL and RabbitMQ'
  stack=$build/test-stack
  trap 'scripts/stack.sh down --purge "$stack"' EXIT
  mkdir -p "$stack"
  exports=$(scripts/stack.sh up "$stack")
  eval "$exports"
  export SKALD_TEST_STACK=$stack
  only=()
else
  only=(--label-regex 'unit|conformance' --label-exclude server)
fi

say 'tests'
# One at a time: some of them stop servers that the others need.
ctest --test-dir "$build" --output-on-failure "${only[@]}" "$@"
