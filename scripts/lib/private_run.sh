# shellcheck shell=bash
# What the scripts have in common that build something, start a private PostgreSQL and RabbitMQ, run a program against
# them and leave nothing running: bench/*.sh and scripts/chaos.sh. Sourced by them, with `root` set to the checkout.
# shellcheck disable=SC2154 # root is theirs

run_name= # of the script: "bench"
folder=   # this run's own; its logs are in $folder/logs
driver=   # the pid of the program that runs

say() { printf '%s: %s\n' "$run_name" "$*"; }
fail() {
  printf '%s: error: %s\n' "$run_name" "$1" >&2
  exit "${2:-1}"
}
usage_error() { fail "$1 (--help lists the options)" 2; }

# split_option "$@": sets flag and value of the first option, whether it is `--flag value` or `--flag=value`, and rest
# to the number of words to shift.
split_option() {
  flag=$1 value=${2-} rest=2
  if [[ $flag == --*=* ]]; then value=${flag#*=} flag=${flag%%=*} rest=1; fi
}

need_value() { [[ $value ]] || usage_error "$flag needs a value"; }

# before_stack_stops may be defined by the script, to stop what else it has started.
before_stack_stops() { :; }

clean_up_run() {
  local code=$?
  # A background command that bash can't even expand runs this trap too, in its own process.
  ((BASHPID == $$)) || exit "$code"
  trap '' INT TERM HUP
  trap - EXIT
  set +e
  if [[ $driver ]]; then kill -TERM "$driver" 2>/dev/null && wait "$driver"; fi
  before_stack_stops
  "$root/scripts/stack.sh" down --purge "$folder/stack" >"$folder/logs/stack-down.log" 2>&1
  if ((code == 1)); then
    rm -rf -- "$root/build/$run_name-failed-logs"
    mv -- "$folder/logs" "$root/build/$run_name-failed-logs"
    say "the logs of this run are in $root/build/$run_name-failed-logs"
  fi
  rm -rf -- "$folder"
  exit "$code"
}

# begin_run NAME: makes the folder; from here on everything is cleaned up however the script ends.
begin_run() {
  run_name=$1
  mkdir -p -- "$root/build"
  folder=$(mktemp -d "$root/build/$run_name.XXXXXX")
  chmod 755 "$folder" # the servers may run as another user
  mkdir "$folder/logs"
  trap clean_up_run EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
}

# build_for_run DIR TYPE TARGET...: sets up the machine and builds; its output is shown only on failure.
build_for_run() {
  local place=$1 type=$2
  local -a tests=()
  shift 2
  "$root/scripts/setup.sh"
  say "building in $place"
  # The folder of the measurements has nothing else in it; that of the checkout may have tests, which stay.
  if [[ $type == Release ]]; then tests=(-DSKALD_BUILD_TESTS=OFF); fi
  if ! { cmake -S "$root" -B "$place" -G Ninja -DCMAKE_BUILD_TYPE="$type" ${tests[@]+"${tests[@]}"} &&
    cmake --build "$place" --target "$@"; } >"$folder/logs/build.log" 2>&1; then
    tail -n 40 "$folder/logs/build.log" >&2
    exit 1
  fi
}

# Exports what stack.sh prints. What the caller has set for other servers is not meant for these; settings of the
# services that are to be tried (SKALD_LANES and so on) can be kept by naming them in `kept_settings`.
start_private_stack() {
  local exports name
  say "starting a private PostgreSQL and RabbitMQ in $folder/stack"
  unset "${!PG@}" DATABASE_URL DATABASE_URL_FILE AMQP_URL_FILE
  for name in "${!SKALD_@}"; do
    [[ " ${kept_settings-} " == *" $name "* ]] || unset "$name"
  done
  exports=$("$root/scripts/stack.sh" up "$folder/stack" 2>"$folder/logs/stack-up.log") || {
    cat "$folder/logs/stack-up.log" >&2
    exit 1
  }
  eval "$exports"
}

# run_driver COMMAND...: in the background and waited for, so that a signal to the script is handled at once. Sets code.
run_driver() {
  code=0
  "$@" &
  driver=$!
  wait "$driver" || code=$?
  driver=
}

commit_of_checkout() { git -C "$root" describe --always --dirty 2>/dev/null || echo unknown; }
