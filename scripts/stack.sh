#!/usr/bin/env bash
# A private PostgreSQL and RabbitMQ that live entirely in one directory, on free ports of 127.0.0.1. Touches no system
# service. See usage() below.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

here=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=lib/stack_common.sh
source "$here/lib/stack_common.sh"
# shellcheck source=lib/stack_postgres.sh
source "$here/lib/stack_postgres.sh"
# shellcheck source=lib/stack_rabbitmq.sh
source "$here/lib/stack_rabbitmq.sh"

usage() {
  cat <<'USAGE'
usage: scripts/stack.sh VERB DIR [postgres|rabbitmq]

  up DIR [SERVER]    start both servers, or one (create them the first time) and print
                     export lines for DATABASE_URL, DATABASE_URL_ORDERS,
                     DATABASE_URL_PAYMENTS, DATABASE_URL_SHIPPING and AMQP_URL:
                         eval "$(scripts/stack.sh up DIR)"
     --databases hotels,cars   with it: these, and DATABASE_URL_HOTELS, DATABASE_URL_CARS,
                     instead of orders, payments and shipping
  down DIR           stop both; the data stay, and "up" goes on with them
  down --purge DIR   stop both and remove all that "up" made
  env DIR            the export lines again; exit status 1 if not all run
  status DIR         what runs; exit status 1 if not all run
  start DIR SERVER   start one server
  stop DIR SERVER    stop one server in order
  kill DIR SERVER    end one server by SIGKILL, all of its processes at once
  ctl DIR ARGS...    run rabbitmqctl with ARGS against the RabbitMQ of DIR
  --help             this text

Works as root (PostgreSQL then runs as the user postgres) and as any user.
Only 127.0.0.1 is served, without passwords. Logs are in DIR/log.
USAGE
}

servers=(postgres rabbitmq)
databases='' # as asked for; empty: what the stack has
started=()

# Those that `up` was asked for once, or the example's.
name_databases() {
  [[ -z ${conf[databases]:-} ]] || IFS=, read -ra pg_databases <<<"${conf[databases]}"
}

print_env() {
  local name upper base
  {
    if [[ ${conf[pg_home]:-} ]]; then
      base="postgresql://$pg_user@127.0.0.1:${conf[pg_port]}"
      printf "export DATABASE_URL='%s/postgres'\n" "$base"
      for name in "${pg_databases[@]}"; do
        upper=${name^^}
        printf "export DATABASE_URL_%s='%s/%s'\n" "${upper//-/_}" "$base" "$name"
      done
    fi
    ! running rabbitmq || printf "export AMQP_URL='amqp://guest:guest@127.0.0.1:%s'\n" "${conf[amqp_port]}"
  } >&3
}

# Those that were ever started here.
all_run() {
  [[ ${conf[pg_home]:-}${conf[node]:-} ]] || return 1
  [[ -z ${conf[pg_home]:-} ]] || running postgres || return 1
  [[ -z ${conf[node]:-} ]] || running rabbitmq
}

# enter DIR: makes it absolute; the servers must not keep the caller's directory in use, and the user postgres may not
# be able to read it.
enter() {
  dir=$(cd -- "$1" 2>/dev/null && pwd -P) || die "cannot enter the directory $1"
  [[ $dir != / ]] || die 'DIR must not be /'
  # RabbitMQ passes its directory to a shell, in quotes.
  [[ $dir != *[\'\"\\\$\`[:cntrl:]]* ]] || die "DIR must not contain quotes, \\, \$ or control characters: $dir"
  cd /
}

enter_new() {
  umask 022
  mkdir -p -- "$1" || die "cannot make the directory $1"
  enter "$1"
  if ! mkdir -p "$dir/run" "$dir/log" || ! touch "$dir/log/"{postgres,rabbitmq}.log; then die "cannot write in $dir"; fi
}

# After a failure, what this run has started is stopped again.
undo_start() {
  local code=$? server
  trap - EXIT
  ((code != 0)) || return 0
  for server in "${servers[@]}"; do
    [[ " ${started[*]} " != *" $server "* ]] || "stop_$server"
  done
  exit "$code"
}

start_servers() {
  local server
  enter_new "$1"
  shift
  lock
  load_conf
  [[ -z $databases ]] || conf[databases]=$databases
  conf[uid]=$EUID
  name_databases
  trap undo_start EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  # RabbitMQ first: it takes longest, and PostgreSQL is created meanwhile.
  for server in rabbitmq postgres; do [[ " $* " != *" $server "* ]] || "begin_$server"; done
  for server in "$@"; do "finish_$server"; done
  save_conf
}

stop_postgres() { signal_stop_postgres && await_stop_postgres; }
stop_rabbitmq() { signal_stop_rabbitmq && await_stop_rabbitmq; }

# Enters a stack that exists, or exits with 0: nothing to stop.
enter_to_stop() {
  if [[ ! -f $1/stack.conf ]]; then
    say "no stack in $1"
    exit 0
  fi
  enter "$1"
  mkdir -p "$dir/run" "$dir/log"
  lock
  load_conf
}

cmd_up() {
  local -a wanted=("${servers[@]}")
  [[ -z ${2-} ]] || wanted=("$2")
  start_servers "$1" "${wanted[@]}"
  print_env
}

cmd_down() {
  local server purge=$2
  enter_to_stop "$1"
  for server in "${servers[@]}"; do "signal_stop_$server"; done
  for server in "${servers[@]}"; do "await_stop_$server"; done
  ((purge)) || return 0
  # Outside DIR only a directory that carries this stack's mark is removed.
  if [[ ${conf[pg_home]:-} == */skald-postgres.?????? ]] && home_is_ours; then rm -rf -- "${conf[pg_home]}"; fi
  rm -rf -- "$dir/postgres" "$dir/rabbitmq" "$dir/log" "$dir/run" "$dir/stack.conf"
  rmdir -- "$dir" 2>/dev/null || true
}

cmd_env() {
  enter "$1"
  load_conf
  name_databases
  all_run || die "the stack in $dir is not running; start it with: scripts/stack.sh up $dir"
  print_env
}

cmd_status() {
  local pid
  enter "$1"
  load_conf
  {
    if pid=$(pid_of postgres); then
      echo "postgres: running, pid $pid, port ${conf[pg_port]}, data in ${conf[pg_home]}"
    else
      echo 'postgres: stopped'
    fi
    if pid=$(pid_of rabbitmq); then
      echo "rabbitmq: running, pid $pid, port ${conf[amqp_port]}, node ${conf[node]}"
    else
      echo 'rabbitmq: stopped'
    fi
  } >&3
  all_run
}

cmd_ctl() {
  enter "$1"
  shift
  load_conf
  running rabbitmq || die "RabbitMQ is not running in $dir"
  find_rabbitmq
  rabbitmq_environment
  exec "${rabbit_env[@]}" "$rabbit_bin/rabbitmqctl" "$@" >&3
}

usage_error() {
  usage >&2
  die "$@"
}

main() {
  local purge=0 arg
  local -a words=()
  # Only the export lines and the like may go to standard output.
  exec 3>&1 1>&2
  if [[ ${1:-} == ctl ]]; then
    (($# >= 3)) || usage_error 'ctl needs DIR and the words for rabbitmqctl'
    cmd_ctl "${@:2}"
  fi
  while (($# > 0)); do
    arg=$1
    shift
    case $arg in
      -h | --help) usage >&3 && exit 0 ;;
      --purge) purge=1 ;;
      --databases)
        [[ ${1-} =~ ^[a-z][a-z0-9_-]*(,[a-z][a-z0-9_-]*)*$ ]] ||
          usage_error '--databases takes names of lower-case letters, digits, _ and -, with commas between them'
        databases=$1
        shift
        ;;
      -*) usage_error "unknown option '$arg'" ;;
      *) words+=("$arg") ;;
    esac
  done
  set -- "${words[@]}"
  (($# >= 2)) || usage_error 'a verb and DIR are needed'
  ((!purge)) || [[ $1 == down ]] || usage_error '--purge is for down'
  [[ -z $databases || $1 == up ]] || usage_error '--databases is for up'
  case $1 in
    up) [[ $# == 2 || ($# == 3 && $3 =~ ^(postgres|rabbitmq)$) ]] || usage_error 'up takes DIR, and postgres or rabbitmq if only that is wanted' ;;
    down | env | status) (($# == 2)) || usage_error "$1 takes one DIR" ;;
    start | stop | kill) [[ $# == 3 && $3 =~ ^(postgres|rabbitmq)$ ]] || usage_error "$1 needs DIR and postgres or rabbitmq" ;;
    *) usage_error "unknown verb '$1'" ;;
  esac
  case $1 in
    down) cmd_down "$2" "$purge" ;;
    start) start_servers "$2" "$3" ;;
    up) cmd_up "$2" "${3-}" ;;
    stop | kill)
      enter_to_stop "$2"
      "$1_$3"
      ;;
    *) "cmd_$1" "$2" ;;
  esac
}

main "$@"
