# shellcheck shell=bash
# The private RabbitMQ of a stack. Sourced by stack.sh.
# shellcheck disable=SC2154 # dir and conf are of stack_common.sh

rabbit_family=() # the processes of a server that is being stopped

# Not /usr/sbin/rabbitmq-server: Debian's wrapper changes the user.
find_rabbitmq() {
  local path
  rabbit_bin=/usr/lib/rabbitmq/bin
  if [[ ! -x $rabbit_bin/rabbitmq-server ]]; then
    path=$(readlink -f "$(command -v rabbitmq-server || true)" || true)
    [[ $path ]] || die 'no RabbitMQ server found; run scripts/setup.sh'
    rabbit_bin=${path%/*}
  fi
  for path in erl epmd; do
    command -v "$path" >/dev/null || die "a part of Erlang is missing ($path); run scripts/setup.sh"
  done
}

write_rabbitmq_files() {
  local home=$dir/rabbitmq
  mkdir -p "$home/home" "$home/mnesia" "$home/generated"
  if [[ ! -s $home/home/.erlang.cookie ]]; then
    rm -f "$home/home/.erlang.cookie"
    (umask 277 && od -An -N24 -tx1 /dev/urandom | tr -d ' \n' >"$home/home/.erlang.cookie")
  fi
  printf '[].\n' >"$home/enabled_plugins"
  cat >"$home/rabbitmq.conf" <<CONF
listeners.tcp.local = 127.0.0.1:${conf[amqp_port]}
distribution.listener.interface = 127.0.0.1
distribution.listener.port_range.min = ${conf[dist_port]}
distribution.listener.port_range.max = ${conf[dist_port]}
disk_free_limit.absolute = 50MB
vm_memory_high_watermark.absolute = 1GB
max_message_size = 134217728
CONF
}

# Runs a RabbitMQ program in an environment that has nothing of the system's RabbitMQ. The name has an address after the
# @ ("long" in Erlang's terms), so that it needs neither /etc/hosts nor a name server.
rabbitmq_environment() {
  local home=$dir/rabbitmq
  rabbit_env=(
    env -i PATH="$PATH" LANG=C.UTF-8 HOME="$home/home" ERL_CRASH_DUMP="$dir/log/erl_crash.dump"
    ERL_EPMD_PORT="${conf[epmd_port]}" ERL_EPMD_ADDRESS=127.0.0.1
    RABBITMQ_USE_LONGNAME=true RABBITMQ_NODENAME="${conf[node]}"
    RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="${conf[amqp_port]}"
    RABBITMQ_DIST_PORT="${conf[dist_port]}"
    RABBITMQ_MNESIA_BASE="$home/mnesia" RABBITMQ_LOG_BASE="$dir/log" RABBITMQ_LOGS="$dir/log/rabbitmq-server.log"
    RABBITMQ_GENERATED_CONFIG_DIR="$home/generated"
    RABBITMQ_CONFIG_FILE="$home/rabbitmq.conf" RABBITMQ_CONFIG_FILES="$home/no-conf.d"
    RABBITMQ_ADVANCED_CONFIG_FILE="$home/no-advanced.config"
    RABBITMQ_ENABLED_PLUGINS_FILE="$home/enabled_plugins" RABBITMQ_CONF_ENV_FILE=/dev/null
  )
}

# Erlang's name server, which would otherwise start by itself as a daemon that nothing stops. Ours runs in the
# foreground, on its own port, and is recorded like the other two.
begin_epmd() {
  local i
  if running epmd; then return 0; fi
  need_port epmd_port
  save_conf
  launch epmd env -i PATH="$PATH" LANG=C.UTF-8 epmd -address 127.0.0.1 -port "${conf[epmd_port]}"
  for ((i = 0; i < 100; i++)); do
    ! owns_port "$(pid_of epmd)" "${conf[epmd_port]}" || return 0
    if ! running epmd; then
      port_listening "${conf[epmd_port]}" || break
      conf[epmd_port]= # another process took the port in the meantime
      begin_epmd
      return
    fi
    sleep 0.05
  done
  show_log "$dir/log/epmd.log"
  die "Erlang's epmd does not listen on port ${conf[epmd_port]}"
}

begin_rabbitmq() {
  local threads
  ! running rabbitmq || return 0
  find_rabbitmq
  begin_epmd
  need_port amqp_port
  need_port dist_port
  # The data are filed under this name: it stays when the port has to change.
  conf[node]=${conf[node]:-skald-${conf[amqp_port]}@127.0.0.1}
  save_conf
  write_rabbitmq_files
  rabbitmq_environment
  threads=$(nproc)
  if ((threads > 4)); then threads=4; fi
  say "starting RabbitMQ on port ${conf[amqp_port]}"
  rabbit_log_start=$(wc -l <"$dir/log/rabbitmq.log")
  # Given a name at once (-name), it need not start a second Erlang to look for an epmd: 2 seconds less.
  # RUNNING_UNDER_SYSTEMD: the shell script becomes the server instead of waiting for it, and the recorded pid is the
  # server's.
  launch rabbitmq "${rabbit_env[@]}" RUNNING_UNDER_SYSTEMD=true \
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-name ${conf[node]} -start_epmd false +S $threads:$threads \
-kernel inet_dist_use_interface {127,0,0,1} inet_dist_listen_min ${conf[dist_port]} inet_dist_listen_max ${conf[dist_port]}" \
    "$rabbit_bin/rabbitmq-server"
}

# The first byte of a broker's answer to the protocol header is that of a frame.
broker_answers() {
  (
    exec 3<>"/dev/tcp/127.0.0.1/$1"
    printf 'AMQP\0\0\x09\x01' >&3
    IFS= read -r -t 5 -N 1 byte <&3 && [[ $byte == $'\x01' ]]
  ) 2>/dev/null
}

rabbitmq_may_retry() {
  local new name
  new=$(tail -n "+$((rabbit_log_start + 1))" "$dir/log/rabbitmq.log")
  [[ $new == *eaddrinuse* || $new == *'port '*' in use'* ]] || return 1
  for name in amqp_port dist_port; do
    if port_listening "${conf[$name]}"; then conf["$name"]=; fi
  done
}

finish_rabbitmq() {
  local end=$((SECONDS + 60)) tries=0 pid
  local -a logs=("$dir/log/rabbitmq.log" "$dir/log/rabbitmq-server.log" "$dir/log/epmd.log")
  until pid=$(pid_of rabbitmq) && owns_port "$pid" "${conf[amqp_port]}" && broker_answers "${conf[amqp_port]}"; do
    if ! running rabbitmq; then
      if ((tries++ >= 3)) || ! rabbitmq_may_retry; then
        show_log "${logs[@]}"
        die 'RabbitMQ ended while it was starting; its log above says why'
      fi
      begin_rabbitmq
    fi
    ((SECONDS < end)) || {
      show_log "${logs[@]}"
      die 'RabbitMQ was not ready after 60 seconds'
    }
    sleep 0.1
  done
}

signal_stop_rabbitmq() {
  local pid
  pid=$(pid_of rabbitmq) || return 0
  say 'stopping RabbitMQ'
  mapfile -t rabbit_family < <(family_of "$pid")
  send TERM "$pid" # the server then shuts down properly
  send CONT "$pid"
}

await_stop_rabbitmq() {
  local pid
  if pid=$(pid_of rabbitmq) && ! wait_gone 30 "$pid"; then
    say 'RabbitMQ does not stop in 30 seconds: killing it'
  fi
  kill_rabbitmq
}

# The server with its helpers, and the epmd. After an orderly stop the helpers (known from before it) end by themselves
# a moment later.
kill_rabbitmq() {
  local pid
  if pid=$(pid_of rabbitmq); then
    mapfile -t rabbit_family < <(family_of "$pid")
    send KILL "${rabbit_family[@]}"
  elif ! wait_gone 2 "${rabbit_family[@]}"; then
    for pid in "${rabbit_family[@]}"; do
      [[ $(cat "/proc/$pid/comm" 2>/dev/null) != @(erl_child_setup|inet_gethost) ]] || send KILL "$pid"
    done
  fi
  wait_gone 10 "${rabbit_family[@]}" || die "RabbitMQ (pids ${rabbit_family[*]}) did not end after SIGKILL"
  if pid=$(pid_of epmd); then
    send KILL "$pid" # it holds nothing that could be lost
    wait_gone 10 "$pid" || die "epmd (pid $pid) did not end after SIGKILL"
  fi
  rm -f "$dir/run/rabbitmq.pid" "$dir/run/epmd.pid"
  kill_stray_epmd
}

# If our epmd had died, the server would have started another one as a daemon.
kill_stray_epmd() {
  local entry name
  [[ ${conf[epmd_port]:-} ]] && port_listening "${conf[epmd_port]}" || return 0
  for entry in /proc/[0-9]*; do
    { read -r name <"$entry/comm"; } 2>/dev/null || continue
    if [[ $name == epmd ]] && owns_port "${entry#/proc/}" "${conf[epmd_port]}"; then send KILL "${entry#/proc/}"; fi
  done
}
