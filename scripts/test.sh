#!/usr/bin/env bash
# Set-up, build, a private PostgreSQL and RabbitMQ, and the tests; ctest's summary comes last.
#
#   scripts/test.sh [PRESET] [ctest arguments...]
#   scripts/test.sh --without LABELS     everything but the tests whose label matches
#
# PRESET is one of CMakePresets.json (default: `default`, which builds in build/ and runs all but the forms below). With
# any other, such as `asan` and `tsan`, the unit tests (under `tsan` those that have threads) and the conformance tests
# of the transports run. Eight forms run alone: `kafka` starts a node of Kafka and runs what needs one; `s3` the same
# with a server that speaks S3's API; `languages` compares the SQL for participants with the C++ a million times, tests
# the SDKs, and runs `skald conform` on right and wrong programs; `crash` builds with failpoints and runs the crash
# matrix, `crash_sample` half of it; `mutants` runs what must fail there; `races` runs whole services under
# ThreadSanitizer while they are killed and cut off; `long` runs the failover, COMMITs that hang, a step that kills its
# worker until it is parked, and the proof that a build without failpoints has no code of them.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
cd "$root"

say() { printf '\ntest: %s\n' "$*"; }

stack=   # the folder of the servers
running= # the process group of what runs on them

# begin FOLDER: of the servers that this run will have. Another run would take them for its own; so it is told, as long as
# this one or a test of it lives.
begin() {
  stack=$1
  mkdir -p -- "${stack%/*}"
  exec 7>"$stack.lock"
  flock -n 7 || {
    printf 'test: error: another run of scripts/test.sh has the servers of %s: wait until it has ended, or end it\n' "$stack" >&2
    exit 1
  }
  trap clean_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
}

# What runs on the servers ends before they do.
clean_up() {
  local code=$?
  trap - EXIT
  trap '' INT TERM HUP
  set +e
  if [[ $running ]]; then
    kill -TERM -- "-$running" 2>/dev/null
    wait "$running"
  fi
  if [[ -d $stack-node ]]; then scripts/kafka.sh down --purge "$stack-node"; fi
  if [[ -d $stack ]]; then scripts/stack.sh down --purge "$stack"; fi
  exit "$code"
}

# on_servers COMMAND...: as a process group of its own, waited for, so that a signal to this script is handled at once.
on_servers() {
  local code=0
  set -m
  "$@" </dev/null &
  running=$!
  set +m
  wait "$running" || code=$?
  running=
  return "$code"
}

languages() {
  [[ -x build/languages/python-test/bin/pip ]] || python3 -m venv build/languages/python-test
  # From a copy: pip builds beside what it installs.
  rm -rf build/languages/python-source && cp -r sdk/python build/languages/python-source
  build/languages/python-test/bin/pip install --quiet --force-reinstall --no-deps build/languages/python-source
  build/languages/python-test/bin/pip install --quiet 'build/languages/python-source[binary,test,fastapi]'
  export PYTHONDONTWRITEBYTECODE=1 SKALD=$root/build/tools/skald ORDER_SERVICE=$root/build/examples/order_saga/order_service
  (cd sdk/python && "$root/build/languages/python-test/bin/pytest" --quiet -p no:cacheprovider)
  (cd sdk/python && "$root/build/languages/python-test/bin/mypy" --cache-dir "$root/build/languages/mypy" skald tests)
  # As a program installs it that uses it, from a copy that has nothing yet.
  rm -rf build/languages/typescript-{test,user} && mkdir -p build/languages/typescript-{test,user}
  cp -r sdk/typescript/{package.json,package-lock.json,tsconfig.json,src,test} build/languages/typescript-test
  npm --prefix build/languages/typescript-user install --silent "$root/build/languages/typescript-test"
  (cd build/languages/typescript-test && npm test --silent)
  (cd sdk/go && test -z "$(gofmt -l .)" && go vet ./... && go test -count=1 -race ./...)
  mvn -q -B "-Dmaven.repo.local=$root/build/languages/maven" -f sdk/java/pom.xml "-Dout=$root/build/languages/java-test" verify
  tests/conform/check.sh python "exec $root/build/languages/python-test/bin/python $root/tests/conform/python/participant.py" \
    "exec $root/build/languages/python-test/bin/python $root/tests/conform/python/mistakes.py"
  conform=$root/build/languages/typescript-test/conform
  mkdir -p "$conform/node_modules"
  ln -sfn "$root/build/languages/typescript-test" "$conform/node_modules/skald-participant"
  for program in participant mistakes; do cp "tests/conform/typescript/$program.ts" "$conform/$program.mts"; done
  build/languages/typescript-test/node_modules/.bin/tsc --rootDir "$conform" --outDir "$conform" --module NodeNext --target ES2022 \
    --strict --skipLibCheck --typeRoots build/languages/typescript-test/node_modules/@types --types node "$conform"/*.mts
  tests/conform/check.sh typescript "exec node $conform/participant.mjs" "exec node $conform/mistakes.mjs"
  (cd tests/conform/go && go build -buildvcs=false -o "$root/build/languages/conform-go-build/" ./...)
  tests/conform/check.sh go "exec $root/build/languages/conform-go-build/participant" "exec $root/build/languages/conform-go-build/mistakes"
  java=$root/build/languages/conform-java-build
  mvn -q -B "-Dmaven.repo.local=$root/build/languages/maven" -f sdk/java/pom.xml "-Dout=$root/build/languages/java-test" -DskipTests install
  mvn -q -B "-Dmaven.repo.local=$root/build/languages/maven" -f tests/conform/java/pom.xml "-Dout=$java" package dependency:copy-dependencies
  tests/conform/check.sh java "exec java -cp '$java/classes:$java/dependency/*' Right" "exec java -cp '$java/classes:$java/dependency/*' Mistakes"
  PARTICIPANT_CASES=${PARTICIPANT_CASES:-1000000} build/tests/participant_tests
}

long=''
crash=crash
races=''
mutants=''
s3=''
without='^(server_faults|long|kafka|s3)$'
if [[ ${1:-} = --without ]]; then
  without="$without|${2:?--without needs a regular expression}"
  shift 2
fi
case ${1:-} in
  -h | --help)
    sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
  '' | -*) preset=default ;;
  crash | crash_sample)
    preset=failpoints
    crash=$1
    shift
    ;;
  kafka)
    begin "$root/build/test-kafka"
    scripts/setup.sh --kafka
    cmake --preset default
    cmake --build --preset default --parallel "$(nproc)" --target conformance_kafka kafka_service_tests
    exports=$(scripts/kafka.sh up "$stack-node" && scripts/stack.sh up "$stack" postgres)
    eval "$exports"
    on_servers ctest --test-dir build --no-tests=error --output-on-failure --label-regex '^kafka$' "${@:2}"
    exit
    ;;
  s3)
    preset=default
    s3=1
    shift
    ;;
  languages)
    begin "$root/build/test-languages"
    scripts/setup.sh --languages
    cmake --preset default
    cmake --build --preset default --parallel "$(nproc)" --target skald_cli participant_tests order_service
    exports=$(scripts/stack.sh up "$stack")
    eval "$exports"
    on_servers languages
    exit
    ;;
  mutants)
    preset=failpoints
    mutants=1
    shift
    ;;
  races)
    preset=tsan
    races=1
    shift
    ;;
  long)
    preset=default
    long=1
    shift
    ;;
  *)
    preset=$1
    shift
    ;;
esac

build=$root/build
[[ $preset = default ]] || build=$root/build-$preset
begin "$build/test-stack"

say 'set-up'
scripts/setup.sh

say "build ($preset)"
cmake --preset "$preset"
targets=(all)
only=()
if [[ $preset != default ]]; then
  targets=(unit_tests http_server_tests conformance_memory conformance_inbox conformance_rabbitmq)
  only=(--tests-regex '^(unit|http_server|conformance_memory|conformance_inbox|conformance_rabbitmq)')
fi
if [[ $preset = failpoints ]]; then
  targets=(crash_matrix crash_messages)
  only=(--label-regex "^$crash\$" --verbose)
fi
if [[ $mutants ]]; then
  targets=(mutants)
  only=(--label-regex '^mutants$' --verbose)
fi
if [[ $races ]]; then
  # One file for each process, and none if nothing is found: the report of a service that is killed is not lost.
  export TSAN_OPTIONS="log_path=$build/races/report exitcode=66"
  rm -rf "$build/races" && mkdir -p "$build/races"
  targets=(service_tests)
  only=(--tests-regex '^service_race_tests$')
fi
if [[ $s3 ]]; then
  scripts/setup.sh --s3
  mkdir -p "$build/tests/s3" && cp tests/s3/package*.json "$build/tests/s3"
  npm --prefix "$build/tests/s3" ci --silent
  targets=(s3_server_tests)
fi
cmake --build --preset "$preset" --parallel "$(nproc)" --target "${targets[@]}"

say 'a private PostgreSQL and RabbitMQ'
exports=$(scripts/stack.sh up "$stack")
eval "$exports"
export SKALD_TEST_STACK=$stack

status=0
if [[ $s3 ]]; then
  only=(--label-regex '^s3$')
elif [[ $long ]]; then
  only=(--label-regex '^long$')
elif [[ $preset = default && $# = 0 ]]; then
  say 'tests that stop and kill the servers'
  on_servers ctest --test-dir "$build" --no-tests=error --output-on-failure --label-regex server_faults || status=$?
  only=(--label-exclude "$without")
fi

say 'tests'
# Tests that stop servers which others need run alone: they declare that themselves. One more than there are cores,
# because the tests wait for the servers' disk a quarter of the time.
on_servers ctest --test-dir "$build" --no-tests=error --output-on-failure --parallel $(($(nproc) + 1)) "${only[@]}" "$@" || status=$?
if [[ $races && $(ls "$build/races") ]]; then
  cat "$build"/races/*
  status=1
fi
if [[ $status != 0 ]] && grep -q 'waits for .* on relation' "$stack/log/postgres.log"; then
  say 'deadlocks on tables, which the server tells nobody else: who waited, and the first line of what they ran'
  grep -E 'ERROR:  deadlock detected|waits for .* on relation|^[[:blank:]]+Process [0-9]+: ' "$stack/log/postgres.log" | tail -n 40
fi
exit "$status"
