#!/usr/bin/env bash
# Holds what services send to a collector against OpenTelemetry's own protobuf definitions: every request of the tests of
# traces is read with them, and a member or a type that they do not know is an error.
#
#   scripts/traces.sh    builds, starts the servers, runs the tests and reads what they sent
#
# The definitions come as the Python package opentelemetry-proto, into a folder below build/.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
readonly root
readonly python=$root/build/otlp/bin/python
readonly sent=$root/build/otlp/sent.jsonl
cd "$root"

case ${1-} in
  '') ;;
  -h | --help) sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
  *) printf "traces: error: unknown argument '%s' (--help says how it is called)\n" "$1" >&2 && exit 2 ;;
esac

if ! "$python" -c 'import opentelemetry.proto.trace.v1.trace_pb2' 2>/dev/null; then
  python3 -m venv "$root/build/otlp"
  "$python" -m pip --quiet install 'opentelemetry-proto>=1.20'
fi
cmake --preset default >/dev/null
cmake --build --preset default --parallel "$(nproc)" --target service_tests >/dev/null

stack=$(mktemp -d)
trap 'scripts/stack.sh down --purge "$stack" >/dev/null 2>&1 || true' EXIT
variables=$(scripts/stack.sh up "$stack")
eval "$variables"
export SKALD_TEST_STACK=$stack SKALD_TEST_OTLP_FILE=$sent
rm -f "$sent"
build/tests/integration/services/service_tests --source-file='*traces_test.cpp'
"$python" tests/observability/check_otlp.py "$sent"
