#!/usr/bin/env bash
# A private cluster of three RabbitMQ nodes on this machine, for tests that kill them in turn. See usage() below.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

here=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=lib/stack_common.sh
source "$here/lib/stack_common.sh"
# shellcheck source=lib/stack_rabbitmq.sh
source "$here/lib/stack_rabbitmq.sh"

usage() {
  cat <<'USAGE'
usage: scripts/broker_cluster.sh VERB DIR [NODE]

  up DIR             start all three nodes (create them the first time) and print the export line for AMQP_URL
  down DIR           stop them and remove all that "up" made
  start DIR NODE     start one node: 1, 2 or 3
  stop DIR NODE      stop one node in order
  kill DIR NODE      end one node by SIGKILL
  ctl DIR ARGS...    run rabbitmqctl with ARGS against the first node that runs
  --help             this text

Only 127.0.0.1 is served. Each node has a directory of its own in DIR, with its log in DIR/NODE/log.
USAGE
}

readonly nodes=(1 2 3)
started=()
base= # DIR, absolute; `dir` of the sourced files is one node's

# The nodes share one name server, which lives as long as the cluster; stack_rabbitmq.sh would give each its own.
begin_epmd() { conf[epmd_port]=$(<"$base/epmd_port"); }
kill_stray_epmd() { :; }

# Peer discovery by a fixed list; if the cluster is partitioned, only the majority goes on.
write_cluster_conf() {
  local n
  cp -p "$base/cookie" "$dir/rabbitmq/home/.erlang.cookie.new"
  mv -f "$dir/rabbitmq/home/.erlang.cookie.new" "$dir/rabbitmq/home/.erlang.cookie"
  {
    echo 'cluster_partition_handling = pause_minority'
    echo 'cluster_formation.peer_discovery_backend = classic_config'
    for n in "${nodes[@]}"; do echo "cluster_formation.classic_config.nodes.$n = skald-$n@127.0.0.1"; done
  } >>"$dir/rabbitmq/rabbitmq.conf"
}
eval "single_$(declare -f write_rabbitmq_files)"
write_rabbitmq_files() { single_write_rabbitmq_files && write_cluster_conf; }

enter_node() {
  dir=$base/$1
  mkdir -p "$dir/run" "$dir/log"
  touch "$dir/log/"{rabbitmq,epmd}.log
  load_conf
  conf[uid]=$EUID
  conf[node]=skald-$1@127.0.0.1
}

start_epmd() {
  dir=$base
  conf=()
  ! running epmd || return 0
  need_port epmd_port
  launch epmd env -i PATH="$PATH" LANG=C.UTF-8 epmd -address 127.0.0.1 -port "${conf[epmd_port]}"
  printf '%s\n' "${conf[epmd_port]}" >"$base/epmd_port"
}

cmd_up() {
  local n url=
  mkdir -p "$base/run" "$base/log"
  touch "$base/log/epmd.log"
  [[ -s $base/cookie ]] || (umask 277 && od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$base/cookie")
  find_rabbitmq
  start_epmd
  for n in "${nodes[@]}"; do enter_node "$n" && begin_rabbitmq; done
  for n in "${nodes[@]}"; do
    enter_node "$n" && finish_rabbitmq && save_conf
    url+="${url:+,}127.0.0.1:${conf[amqp_port]}"
  done
  printf "export AMQP_URL='amqp://guest:guest@%s'\n" "$url" >&3
}

cmd_start() {
  enter_node "$1" && begin_rabbitmq && finish_rabbitmq && save_conf
}

cmd_stop() {
  enter_node "$1" && signal_stop_rabbitmq && await_stop_rabbitmq
}

cmd_kill() {
  enter_node "$1" && kill_rabbitmq
}

cmd_ctl() {
  local n
  for n in "${nodes[@]}"; do
    enter_node "$n"
    running rabbitmq || continue
    find_rabbitmq
    begin_epmd
    rabbitmq_environment
    exec "${rabbit_env[@]}" "$rabbit_bin/rabbitmqctl" "$@" >&3
  done
  die "no node runs in $base"
}

cmd_down() {
  local n pid
  for n in "${nodes[@]}"; do enter_node "$n" && kill_rabbitmq; done
  dir=$base
  if pid=$(pid_of epmd); then send KILL "$pid"; fi
  for n in "${nodes[@]}"; do rm -rf -- "${base:?}/$n"; done
  rm -rf -- "$base/run" "$base/log" "$base/cookie" "$base/epmd_port"
  rmdir -- "$base" 2>/dev/null || true
}

main() {
  exec 3>&1 1>&2
  [[ ${1:-} != -h && ${1:-} != --help ]] || { usage >&3 && exit 0; }
  (($# >= 2)) || { usage && die 'a verb and DIR are needed'; }
  mkdir -p -- "$2"
  base=$(cd -- "$2" && pwd -P)
  case $1 in
    up | down) "cmd_$1" ;;
    start | stop | kill)
      [[ ${3:-} =~ ^[123]$ ]] || die "$1 needs DIR and the number of a node, 1 to 3"
      "cmd_$1" "$3"
      ;;
    ctl) cmd_ctl "${@:3}" ;;
    *) usage && die "unknown verb '$1'" ;;
  esac
}

main "$@"
