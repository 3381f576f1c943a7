#!/usr/bin/env bash
# A private Kafka of one node or three that lives entirely in one directory, on free ports of 127.0.0.1. Its jars come
# from Maven Central, once for a user. See usage() below.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

here=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=lib/stack_common.sh
source "$here/lib/stack_common.sh"

usage() {
  cat <<'USAGE'
usage: scripts/kafka.sh VERB [--nodes 3] DIR [NODE]

  up DIR             start the node (make it the first time) and print export lines
                     for SKALD_KAFKA_BROKERS and, for tests, KAFKA_TEST_PORTS
  up --nodes 3 DIR   likewise three nodes; topics have three replicas then, and a
                     record is confirmed when two have it
  down DIR           stop all; their data stay
  down --purge DIR   stop them and remove all that "up" made
  start DIR NODE     start one node again: 1, 2 or 3
  stop DIR NODE      stop one in order
  kill DIR NODE      end one by SIGKILL
  --help             this text

Needs Java and Maven: scripts/setup.sh --kafka. Only 127.0.0.1 is served, without
passwords. The logs are DIR/log/kafka_NODE.log.
USAGE
}

started=()
readonly pom=$here/lib/kafka-node/pom.xml
readonly cluster_id=skald-test-node-000000w

# Fills "jars" with the directory that has them.
find_jars() {
  local version
  command -v java >/dev/null || die 'no Java found; run scripts/setup.sh --kafka'
  version=$(cksum <"$pom")
  jars=${XDG_CACHE_HOME:-$HOME/.cache}/skald/kafka-${version%% *}
  [[ ! -f $jars/complete ]] || return 0
  command -v mvn >/dev/null || die 'no Maven found; run scripts/setup.sh --kafka'
  say 'fetching the jars of Kafka'
  mkdir -p "$jars"
  mvn -q -B -f "$pom" dependency:copy-dependencies -DoutputDirectory="$jars" >"$dir/log/maven.log" 2>&1 || {
    show_log "$dir/log/maven.log"
    die 'Maven could not bring the jars of Kafka'
  }
  touch "$jars/complete"
}

# Fills "nodes" with their numbers.
list_nodes() { mapfile -t nodes < <(seq 1 "${conf[kafka_nodes]:-1}"); }

voters() {
  local n all=
  for n in "${nodes[@]}"; do all+="${all:+,}$n@127.0.0.1:${conf[kafka_quorum_$n]}"; done
  printf '%s' "$all"
}

# Two listeners: one for who connects directly, and one whose clients are sent to a port where a test's proxy listens.
# Topics may be made by accident, as by default in Kafka: so that a test sees that Skald makes none.
write_properties() {
  local n=$1 count=${#nodes[@]}
  mkdir -p -- "$dir/kafka/$n/data"
  cat >"$dir/kafka/$n/server.properties" <<CONF
process.roles=broker,controller
node.id=$n
controller.quorum.voters=$(voters)
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listeners=PLAINTEXT://127.0.0.1:${conf[kafka_port_$n]},CONTROLLER://127.0.0.1:${conf[kafka_quorum_$n]},PROXY://127.0.0.1:${conf[kafka_through_$n]}
advertised.listeners=PLAINTEXT://127.0.0.1:${conf[kafka_port_$n]},PROXY://127.0.0.1:${conf[kafka_proxy_$n]}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXY:PLAINTEXT
log.dirs=$dir/kafka/$n/data
auto.create.topics.enable=true
default.replication.factor=$count
min.insync.replicas=$((count / 2 + 1))
offsets.topic.replication.factor=$count
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
CONF
}

# Fills "java" with the command that begins each.
find_java() {
  find_jars
  java=(java "-Xmx$((${#nodes[@]} > 1 ? 256 : 512))m" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$jars/*")
}

begin_node() {
  local n=$1
  ! running "kafka_$n" || return 0
  write_properties "$n"
  if [[ ! -f $dir/kafka/$n/data/meta.properties ]]; then
    "${java[@]}" kafka.tools.StorageTool format -t "$cluster_id" -c "$dir/kafka/$n/server.properties" \
      >>"$dir/log/kafka_$n.log" 2>&1 || {
      show_log "$dir/log/kafka_$n.log"
      die 'Kafka could not make its storage'
    }
  fi
  say "starting Kafka's node $n on port ${conf[kafka_port_$n]}"
  launch "kafka_$n" "${java[@]}" kafka.Kafka "$dir/kafka/$n/server.properties"
}

finish_node() {
  local n=$1 pid end=$((SECONDS + 180))
  until pid=$(pid_of "kafka_$n") && owns_port "$pid" "${conf[kafka_port_$n]}"; do
    if ! running "kafka_$n" || ((SECONDS > end)); then
      show_log "$dir/log/kafka_$n.log"
      die 'Kafka did not start; its log above says why'
    fi
    sleep 0.1
  done
}

# cmd_up NODES DIR
cmd_up() {
  local n name brokers='' ports=''
  mkdir -p -- "$2/run" "$2/log" "$2/kafka" || die "cannot write in $2"
  dir=$(cd -- "$2" && pwd -P)
  lock
  load_conf
  conf[uid]=$EUID
  conf[kafka_nodes]=${conf[kafka_nodes]:-$1}
  list_nodes
  find_java
  for n in "${nodes[@]}"; do
    if running "kafka_$n"; then continue; fi
    for name in kafka_port kafka_through kafka_proxy kafka_quorum; do need_port "${name}_$n"; done
  done
  save_conf
  for n in "${nodes[@]}"; do begin_node "$n"; done
  for n in "${nodes[@]}"; do
    finish_node "$n"
    brokers+="${brokers:+,}127.0.0.1:${conf[kafka_port_$n]}"
    ports+="${ports:+,}${conf[kafka_through_$n]},${conf[kafka_proxy_$n]}"
  done
  printf "export SKALD_KAFKA_BROKERS='%s'\n" "$brokers" >&3
  printf "export KAFKA_TEST_PORTS='%s'\n" "$ports" >&3
}

# enter DIR
enter() {
  [[ -f $1/stack.conf ]] || die "there is no Kafka in $1"
  dir=$(cd -- "$1" && pwd -P)
  mkdir -p "$dir/run"
  lock
  load_conf
  list_nodes
}

cmd_start() {
  enter "$1"
  find_java
  begin_node "$2"
  finish_node "$2"
}

# cmd_end SIGNAL DIR NODE
cmd_end() {
  enter "$2"
  end_node "$1" "$3"
}

# end_node SIGNAL NODE
end_node() {
  local pid
  pid=$(pid_of "kafka_$2") || return 0
  send "$1" "$pid"
  wait_gone 30 "$pid" || send KILL "$pid"
  wait_gone 10 "$pid" || die "Kafka's node $2 (pid $pid) does not end"
}

# cmd_down DIR PURGE
cmd_down() {
  local n signal=TERM
  [[ -f $1/stack.conf ]] || { say "no Kafka in $1" && return 0; }
  enter "$1"
  # Without a majority a node can't leave in order, and would wait for one.
  if ((${#nodes[@]} > 1)); then signal=KILL; fi
  for n in "${nodes[@]}"; do end_node "$signal" "$n"; done
  (($2)) || return 0
  rm -rf -- "$dir/kafka" "$dir/log" "$dir/run" "$dir/stack.conf"
  rmdir -- "$dir" 2>/dev/null || true
}

# need_node DIR NODE
need_node() {
  [[ ${1:-} && ${2:-} =~ ^[123]$ ]] || die 'DIR and the number of a node are needed'
}

main() {
  exec 3>&1 1>&2
  local verb=${1-} count=1 purge=0
  shift || true
  if [[ ${1-} == --nodes ]]; then
    [[ ${2-} =~ ^[13]$ ]] || die '--nodes is 1 or 3'
    count=$2
    shift 2
  fi
  if [[ ${1-} == --purge ]]; then purge=1 && shift; fi
  case $verb in
    -h | --help) usage >&3 ;;
    up) cmd_up "$count" "${1:?up needs DIR}" ;;
    start) need_node "$@" && cmd_start "$1" "$2" ;;
    stop) need_node "$@" && cmd_end TERM "$1" "$2" ;;
    kill) need_node "$@" && cmd_end KILL "$1" "$2" ;;
    down) cmd_down "${1:?down needs DIR}" "$purge" ;;
    *) usage && exit 2 ;;
  esac
}

main "$@"
