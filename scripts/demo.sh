#!/usr/bin/env bash
# The order saga in one command: set-up, build, a private PostgreSQL and RabbitMQ, three services, and
# examples/order_saga/demo, which orders, disturbs and judges. Leaves nothing running, and no files outside build/.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
readonly root
readonly build=$root/build
targets=(order_service payment_service shipping_service order_demo)

folder=   # this run's: the stack and the logs
keep=     # where the user wants it
driver=   # the driver's process id while it runs
driver_arguments=()
transport=rabbitmq
payments=   # its language: python, go, java
typescript= # shipping in TypeScript
relays=()   # the process ids of their relays

usage() {
  cat <<'USAGE'
usage: scripts/demo.sh [options]

Runs 1,000 orders through the order saga on a private PostgreSQL and RabbitMQ,
from many clients at once. A third of the requests is sent twice, every delivery
is published once more, and each service is killed at least once. Then three
databases say whether anything was lost or happened twice.

  --orders N    how many orders (default 1000)
  --clients N   how many clients order at the same time (default 16)
  --seed N      the same orders, duplicates and kills again (default: random)
  --gateway     a payment provider charges, which misbehaves now and then; its
                ledger must say what the orders say
  --transport T rabbitmq (default); kafka: a private Kafka of one node; or
                postgres: messages go from database to database, and no broker
                is started
  --payments L  the service payments in that language: python, go or java, with
                its SDK, installed in build/languages, and a relay of its own
  --shipping L  the service shipping likewise: typescript, with sdk/typescript
  --json FILE   also write the figures to FILE
  --keep DIR    run in DIR (new or empty) and keep logs and databases there
  --help        this text

Exit status: 0 if all is well, 1 if anything is wrong, 2 for wrong options.
USAGE
}

say() { printf 'demo: %s\n' "$*"; }
die() {
  printf 'demo: error: %s\n' "$*" >&2
  exit 1
}
usage_error() {
  printf 'demo: error: %s (--help lists the options)\n' "$*" >&2
  exit 2
}

# number FLAG VALUE LOW HIGH
number() {
  # Nineteen digits are sure to fit into bash's numbers, or overflow visibly.
  if ! [[ $2 =~ ^[0-9]{1,18}$ ]] || ((10#$2 < $3 || 10#$2 > $4)); then
    usage_error "$1 needs a whole number from $3 to $4, not '$2'"
  fi
  driver_arguments+=("$1" "$((10#$2))")
}

parse() {
  local flag value
  while (($# > 0)); do
    flag=$1
    [[ $flag != -h && $flag != --help ]] || { usage && exit 0; }
    if [[ $flag == --gateway ]]; then
      targets+=(gateway)
      driver_arguments+=(--gateway "$build/tools/gateway")
      shift
      continue
    fi
    if [[ $flag == --*=* ]]; then
      value=${flag#*=}
      flag=${flag%%=*}
      shift
    else
      (($# >= 2)) || value=
      value=${2-}
      shift $(($# >= 2 ? 2 : 1))
    fi
    case $flag in
      --orders) number "$flag" "$value" 1 100000 ;;
      --clients) number "$flag" "$value" 1 256 ;;
      --seed) number "$flag" "$value" 0 999999999999999999 ;;
      --transport)
        [[ $value == rabbitmq || $value == kafka || $value == postgres ]] ||
          usage_error "--transport is rabbitmq, kafka or postgres, not '$value'"
        transport=$value
        driver_arguments+=(--transport "$value")
        ;;
      --payments)
        [[ $value == python || $value == go || $value == java ]] || usage_error "--payments is python, go or java, not '$value'"
        payments=$value
        targets+=(skald_cli)
        driver_arguments+=(--payments "$build/languages/payments")
        ;;
      --shipping)
        [[ $value == typescript ]] || usage_error "--shipping is typescript, not '$value'"
        typescript=1
        targets+=(skald_cli)
        driver_arguments+=(--shipping "$build/languages/shipping")
        ;;
      --json)
        [[ $value ]] || usage_error '--json needs a FILE'
        driver_arguments+=(--json "$(realpath -m -- "$value")")
        ;;
      --keep)
        [[ $value ]] || usage_error '--keep needs a DIR'
        keep=$(realpath -m -- "$value")
        ;;
      *) usage_error "unknown option '$flag'" ;;
    esac
  done
  if [[ $payments$typescript && $transport != rabbitmq ]]; then usage_error 'participants in other languages go with RabbitMQ'; fi
  if [[ $payments && " ${driver_arguments[*]} " == *' --gateway '* ]]; then usage_error "--payments $payments has no gateway"; fi
}

make_folder() {
  if [[ $keep ]]; then
    [[ ! -e $keep || (-d $keep && -z $(ls -A -- "$keep")) ]] || usage_error "--keep: $keep is there and is not empty"
    mkdir -p -- "$keep"
    folder=$keep
  else
    mkdir -p -- "$build"
    folder=$(mktemp -d "$build/demo.XXXXXX")
    chmod 755 "$folder" # the servers may run as another user
  fi
  mkdir "$folder/logs"
}

# Runs at every exit, whatever caused it, and must not be interrupted.
clean_up() {
  local code=$?
  trap '' INT TERM HUP PIPE
  trap - EXIT
  set +e
  if ((code > 128)); then say 'stopping everything'; fi
  if [[ $driver ]]; then
    kill -TERM "$driver" 2>/dev/null
    wait "$driver"
  fi
  for relay in ${relays[@]+"${relays[@]}"}; do
    kill -TERM "$relay" 2>/dev/null
    wait "$relay"
  done
  if [[ ! $folder ]]; then exit "$code"; fi
  if [[ $keep ]]; then
    stop_servers
    say "kept in $folder: logs/, stack/ (scripts/stack.sh up $folder/stack starts it again)"
  else
    stop_servers --purge || cat "$folder/logs/stack-down.log" >&2
    if ((code == 1)); then keep_logs; fi
    rm -rf -- "$folder"
  fi
  exit "$code"
}

# The logs of a failed run stay, until the next one fails.
keep_logs() {
  rm -rf -- "$build/demo-failed-logs"
  mv -- "$folder/logs" "$build/demo-failed-logs"
  say "the logs of this run are in $build/demo-failed-logs; --keep DIR keeps the databases as well"
}

# logged NAME COMMAND...: the output goes to a log, and is shown only on failure.
logged() {
  local log=$folder/logs/$1.log
  shift
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    die "this failed: $*"
  fi
}

build_all() {
  say "building in $build (the first time takes some minutes)"
  logged configure cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo
  local -a make=(cmake --build "$build" --target "${targets[@]}")
  if [[ -t 1 ]]; then
    "${make[@]}" || die "the build failed"
  else
    logged build "${make[@]}"
  fi
}

start_stack() {
  local exports
  local -a only=()
  local what='PostgreSQL and RabbitMQ'
  if [[ $transport != rabbitmq ]]; then
    only=(postgres)
    what=PostgreSQL
  fi
  say "starting a private $what in $folder/stack"
  # What the caller has set for other servers is not meant for these.
  unset "${!PG@}" DATABASE_URL DATABASE_URL_FILE AMQP_URL AMQP_URL_FILE SKALD_HTTP_LISTEN
  exports=$("$root/scripts/stack.sh" up "$folder/stack" ${only[@]+"${only[@]}"} 2>"$folder/logs/stack-up.log") || {
    cat "$folder/logs/stack-up.log" >&2
    die "the private $what did not start"
  }
  eval "$exports"
  if [[ $transport == kafka ]]; then start_kafka; fi
}

# participant SERVICE URL COMMAND...: the program that the driver starts and kills, the schema in its database, and a relay,
# which is not killed.
participant() {
  local service=$1 url=$2
  shift 2
  mkdir -p "$build/languages"
  printf '#!/bin/sh\nexec %s\n' "$(printf '%q ' "$@")" >"$build/languages/$service"
  chmod 755 "$build/languages/$service"
  DATABASE_URL=$url logged "migrate-$service" "$build/tools/skald" migrate --service "$service"
  DATABASE_URL=$url "$build/tools/skald" relay >"$folder/logs/relay-$service.log" 2>&1 &
  relays+=("$!")
}

start_python() {
  local venv=$build/languages/python
  say "installing sdk/python in $venv"
  [[ -x $venv/bin/pip ]] || logged venv python3 -m venv "$venv"
  # From a copy: pip builds beside what it installs.
  rm -rf "$venv-source" && cp -r "$root/sdk/python" "$venv-source"
  logged pip "$venv/bin/pip" install --force-reinstall --no-deps "$venv-source"
  logged pip "$venv/bin/pip" install "$venv-source[binary]"
  participant payments "$DATABASE_URL_PAYMENTS" "$venv/bin/python" "$root/examples/order_saga/python/payments.py"
}

start_go() {
  say "building payments with sdk/go in $build/languages"
  (cd "$root/examples/order_saga/go" && logged go go build -buildvcs=false -o "$build/languages/payments-go" .)
  participant payments "$DATABASE_URL_PAYMENTS" env "PAYMENTS_TABLES=$root/examples/order_saga/sql/payments.sql" "$build/languages/payments-go"
}

start_java() {
  local made=$build/languages/java
  local -a maven=(mvn -q -B "-Dmaven.repo.local=$build/languages/maven")
  say "installing sdk/java in $build/languages/maven"
  logged sdk-java "${maven[@]}" -f "$root/sdk/java/pom.xml" "-Dout=$made/sdk" -DskipTests install
  logged payments-java "${maven[@]}" -f "$root/examples/order_saga/java/pom.xml" "-Dout=$made/payments" package dependency:copy-dependencies
  participant payments "$DATABASE_URL_PAYMENTS" env "PAYMENTS_TABLES=$root/examples/order_saga/sql/payments.sql" \
    java -cp "$made/payments/classes:$made/payments/dependency/*" Payments
}

start_typescript() {
  local project=$build/languages/typescript
  say "installing sdk/typescript in $project"
  mkdir -p "$project"
  cp -r "$root"/sdk/typescript/{package.json,package-lock.json,tsconfig.json,src,test} "$project"
  logged npm npm --prefix "$project" ci --silent
  mkdir -p "$project/shipping/node_modules"
  ln -sfn "$project" "$project/shipping/node_modules/skald-participant"
  cp "$root/examples/order_saga/typescript/shipping.ts" "$project/shipping/shipping.mts"
  logged tsc "$project/node_modules/.bin/tsc" --rootDir "$project/shipping" --outDir "$project/shipping" --module NodeNext --target ES2022 --strict --skipLibCheck \
    --typeRoots "$project/node_modules/@types" --types node "$project/shipping/shipping.mts"
  participant shipping "$DATABASE_URL_SHIPPING" env "SHIPPING_TABLES=$root/examples/order_saga/sql/shipping.sql" \
    node "$project/shipping/shipping.mjs"
}

start_kafka() {
  local exports
  say "starting a private Kafka in $folder/kafka"
  exports=$("$root/scripts/kafka.sh" up "$folder/kafka" 2>"$folder/logs/kafka-up.log") || {
    cat "$folder/logs/kafka-up.log" >&2
    die 'the private Kafka did not start'
  }
  eval "$exports"
}

# stop_servers [--purge]
stop_servers() {
  if [[ -d $folder/kafka ]]; then "$root/scripts/kafka.sh" down "$@" "$folder/kafka" >"$folder/logs/kafka-down.log" 2>&1; fi
  [[ ! -d $folder/stack ]] || "$root/scripts/stack.sh" down "$@" "$folder/stack" >"$folder/logs/stack-down.log" 2>&1
}

# In the background and waited for, so that a signal to this script is handled at once, and not when the driver has
# ended.
run_driver() {
  local code=0
  "$build/examples/order_saga/order_demo" --services "$build/examples/order_saga" --logs "$folder/logs" \
    ${driver_arguments[@]+"${driver_arguments[@]}"} &
  driver=$!
  wait "$driver" || code=$?
  driver=
  return "$code"
}

main() {
  parse "$@"
  trap clean_up EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 141' PIPE
  trap 'exit 143' TERM
  make_folder
  "$root/scripts/setup.sh"
  if [[ $transport == kafka ]]; then "$root/scripts/setup.sh" --kafka; fi
  if [[ $payments$typescript ]]; then "$root/scripts/setup.sh" --languages; fi
  build_all
  start_stack
  if [[ $payments ]]; then "start_$payments"; fi
  if [[ $typescript ]]; then start_typescript; fi
  run_driver
}

main "$@"
