#!/usr/bin/env bash
# A private Kafka of one node that lives entirely in one directory, on free ports of 127.0.0.1. Its jars come from Maven
# Central, once for a user. See usage() below.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

here=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=lib/stack_common.sh
source "$here/lib/stack_common.sh"

usage() {
  cat <<'USAGE'
usage: scripts/kafka.sh VERB DIR

  up DIR             start the node (make it the first time) and print export lines
                     for SKALD_KAFKA_BROKERS and, for tests, SKALD_TEST_KAFKA_PORTS
  down DIR           stop it; its data stay
  down --purge DIR   stop it and remove all that "up" made
  kill DIR           end it by SIGKILL
  --help             this text

Needs Java and Maven: scripts/setup.sh --kafka. Only 127.0.0.1 is served, without
passwords. Its log is DIR/log/kafka.log.
USAGE
}

started=()
readonly pom=$here/lib/kafka-node/pom.xml

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

# Two listeners: one for who connects directly, and one whose clients are sent to a port where a test's proxy listens.
# Topics may be made by accident, as by default in Kafka: so that a test sees that Skald makes none.
write_properties() {
  cat >"$dir/kafka/server.properties" <<CONF
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:${conf[kafka_quorum]}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listeners=PLAINTEXT://127.0.0.1:${conf[kafka_port]},CONTROLLER://127.0.0.1:${conf[kafka_quorum]},PROXY://127.0.0.1:${conf[kafka_through]}
advertised.listeners=PLAINTEXT://127.0.0.1:${conf[kafka_port]},PROXY://127.0.0.1:${conf[kafka_proxy]}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXY:PLAINTEXT
log.dirs=$dir/kafka/data
auto.create.topics.enable=true
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
CONF
}

cmd_up() {
  local name end=$((SECONDS + 180))
  mkdir -p -- "$1/run" "$1/log" "$1/kafka/data" || die "cannot write in $1"
  dir=$(cd -- "$1" && pwd -P)
  load_conf
  if ! running kafka; then
    find_jars
    conf[uid]=$EUID
    for name in kafka_port kafka_through kafka_proxy kafka_quorum; do need_port "$name"; done
    save_conf
    write_properties
    local -a java=(java -Xmx512m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$jars/*")
    if [[ ! -f $dir/kafka/data/meta.properties ]]; then
      "${java[@]}" kafka.tools.StorageTool format -t skald-test-node-000000w -c "$dir/kafka/server.properties" \
        >>"$dir/log/kafka.log" 2>&1 || {
        show_log "$dir/log/kafka.log"
        die 'Kafka could not make its storage'
      }
    fi
    say "starting Kafka on port ${conf[kafka_port]}"
    launch kafka "${java[@]}" kafka.Kafka "$dir/kafka/server.properties"
  fi
  until port_answers "${conf[kafka_port]}"; do
    if ! running kafka || ((SECONDS > end)); then
      show_log "$dir/log/kafka.log"
      die 'Kafka did not start; its log above says why'
    fi
    sleep 0.1
  done
  printf "export SKALD_KAFKA_BROKERS='127.0.0.1:%s'\n" "${conf[kafka_port]}" >&3
  printf "export SKALD_TEST_KAFKA_PORTS='%s,%s'\n" "${conf[kafka_through]}" "${conf[kafka_proxy]}" >&3
}

# cmd_end SIGNAL DIR PURGE
cmd_end() {
  local pid
  [[ -f $2/stack.conf ]] || { say "no Kafka in $2" && return 0; }
  dir=$(cd -- "$2" && pwd -P)
  load_conf
  if pid=$(pid_of kafka); then
    send "$1" "$pid"
    wait_gone 30 "$pid" || send KILL "$pid"
    wait_gone 10 "$pid" || die "Kafka (pid $pid) does not end"
  fi
  (($3)) || return 0
  rm -rf -- "$dir/kafka" "$dir/log" "$dir/run" "$dir/stack.conf"
  rmdir -- "$dir" 2>/dev/null || true
}

main() {
  exec 3>&1 1>&2
  case ${1-} in
    -h | --help) usage >&3 ;;
    up) cmd_up "${2:?up needs DIR}" ;;
    kill) cmd_end KILL "${2:?kill needs DIR}" 0 ;;
    down)
      if [[ ${2-} == --purge ]]; then cmd_end TERM "${3:?down needs DIR}" 1; else cmd_end TERM "${2:?down needs DIR}" 0; fi
      ;;
    *) usage && exit 2 ;;
  esac
}

main "$@"
