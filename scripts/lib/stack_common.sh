# shellcheck shell=bash
# What stack.sh needs for any server: messages, the stack's record, free ports,
# processes that outlive the script. Sourced by stack.sh.

dir= # the stack's directory, absolute

say() { printf 'stack: %s\n' "$*" >&2; }
die() {
  printf 'stack: error: %s\n' "$*" >&2
  exit 1
}

# --- the record of a stack: DIR/stack.conf, lines of name=value ---------------

declare -A conf=()

# Read, not sourced: a file in DIR must not run as a program.
load_conf() {
  local name value
  conf=()
  [[ -f $dir/stack.conf ]] || return 0
  while IFS='=' read -r name value; do
    case $name in
      uid | databases | pg_port | pg_home | pg_socket | amqp_port | dist_port | epmd_port | node | kafka_nodes | kafka_*_[123]) conf[$name]=$value ;;
    esac
  done <"$dir/stack.conf"
  [[ ${conf[uid]:-$EUID} == "$EUID" ]] ||
    die "$dir is a stack of user id ${conf[uid]}, and this is user id $EUID; run it as that user or choose another directory"
}

save_conf() {
  local name
  for name in "${!conf[@]}"; do printf '%s=%s\n' "$name" "${conf[$name]}"; done >"$dir/stack.conf.new"
  mv "$dir/stack.conf.new" "$dir/stack.conf"
}

# One change of a stack at a time. The servers do not get descriptor 9.
lock() {
  exec 9>"$dir/run/lock"
  flock -w 300 9 || die "another script has been busy with $dir for five minutes"
}

# --- ports --------------------------------------------------------------------

# port_in_table PORT STATES: a TCP socket of this machine has that local port.
port_in_table() {
  grep -qsE "^ *[0-9]+: [0-9A-F]+:$(printf '%04X' "$1") [0-9A-F]+:[0-9A-F]{4} $2 " /proc/net/tcp /proc/net/tcp6
}
port_listening() { port_in_table "$1" 0A; }
port_answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# owns_port PID PORT: a socket that listens there is that process's, and not only one of another stack that was given the
# same port at the same time. Java's are in the second table.
owns_port() {
  local inode
  for inode in $(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
    awk -v end=":$(printf '%04X' "$2")" '$4 == "0A" && substr($2, length($2) - 4) == end { print $10 }'); do
    [[ ! $(find "/proc/$1/fd" -lname "socket:\[$inode\]" 2>/dev/null) ]] || return 0
  done
  return 1
}

# need_port NAME: keeps the recorded port if no process listens there, so that a restarted server is found where it was;
# otherwise records a free one. A server that was just killed may hold its port a moment longer. The range lies below
# the ports that the kernel gives to outgoing connections.
need_port() {
  local name=$1 port try other
  port=${conf[$name]:-}
  for ((try = 0; try < 20; try++)); do
    [[ $port ]] || break
    port_listening "$port" || return 0
    sleep 0.1
  done
  for ((try = 0; try < 200; try++)); do
    port=$((20000 + RANDOM % 12000))
    for other in "${conf[@]}"; do [[ $other != "$port" ]] || continue 2; done
    if port_in_table "$port" '[0-9A-F]{2}' || port_answers "$port"; then continue; fi
    if [[ ${conf[$name]:-} ]]; then say "port ${conf[$name]} is taken, $name is now $port"; fi
    conf[$name]=$port
    return 0
  done
  die 'no free TCP port found between 20000 and 31999'
}

# --- processes ----------------------------------------------------------------

# Fills "stat" with the fields of /proc/PID/stat from the state on: 0 state,
# 1 parent, 19 start time. The name before them may hold blanks.
read_stat() {
  local line
  { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
  # shellcheck disable=SC2206
  stat=(${line##*) })
}

# A zombie is dead: the process that should reap it may take long to do so.
pid_alive() {
  local -a stat
  read_stat "$1" && [[ ${stat[0]} != [ZX] ]]
}

# pid_of NAME: the recorded pid, if it is still the process that was recorded. The start time distinguishes it from a
# later process with the same number.
pid_of() {
  local pid='' start='' stat
  { read -r pid start <"$dir/run/$1.pid"; } 2>/dev/null || return 1
  read_stat "$pid" && [[ ${stat[0]} != [ZX] && ${stat[19]} == "$start" ]] || return 1
  printf '%s' "$pid"
}
running() { pid_of "$1" >/dev/null; }

# Runs in the new process: records itself, closes every descriptor that the caller may be waiting on, and becomes the
# server. Erlang walks all possible descriptors when it starts, so a limit of a thousand million would cost minutes.
# shellcheck disable=SC2016
readonly become_server='
  pidfile=$1; shift
  for fd in /proc/self/fd/*; do fd=${fd##*/}; ((fd <= 2)) || eval "exec $fd>&-"; done
  ulimit -Sn 65536 2>/dev/null || ulimit -Sn "$(ulimit -Hn)"
  read -r line </proc/$$/stat; rest=(${line##*) })
  printf "%s %s\n" "$$" "${rest[19]}" >"$pidfile"
  exec "$@"'

# launch NAME COMMAND...: a process in its own session, so that it survives this script and its terminal; output goes to
# DIR/log/NAME.log.
launch() {
  local name=$1 i
  shift
  : >"$dir/run/$name.pid"
  setsid bash -c "$become_server" launch "$dir/run/$name.pid" "$@" \
    </dev/null >>"$dir/log/$name.log" 2>&1 3>&- 9>&- &
  disown
  started+=("$name")
  for ((i = 0; i < 100; i++)); do
    [[ ! -s $dir/run/$name.pid ]] || return 0
    sleep 0.05
  done
  die "$name could not be started; see $dir/log/$name.log"
}

# wait_gone SECONDS PID...: true once all of them have ended.
wait_gone() {
  local end=$((SECONDS + $1)) pid
  shift
  for pid in "$@"; do
    while pid_alive "$pid"; do
      ((SECONDS <= end)) || return 1
      sleep 0.05
    done
  done
}

# children_of PID: those that are alive.
children_of() {
  local entry stat
  for entry in /proc/[0-9]*; do
    read_stat "${entry#/proc/}" || continue
    if [[ ${stat[1]} == "$1" && ${stat[0]} != [ZX] ]]; then printf '%s\n' "${entry#/proc/}"; fi
  done
}

# family_of PID: the process, its children, their children.
family_of() {
  local child
  printf '%s\n' "$1"
  for child in $(children_of "$1"); do family_of "$child"; done
}

# send SIGNAL PID...: it does not matter if one has just ended.
send() {
  local signal=$1
  shift
  (($# == 0)) || kill -s "$signal" "$@" 2>/dev/null || true
}

show_log() {
  local file
  for file in "$@"; do
    [[ -s $file ]] || continue
    printf -- '--- the end of %s\n' "$file" >&2
    tail -n 20 "$file" >&2
  done
}
