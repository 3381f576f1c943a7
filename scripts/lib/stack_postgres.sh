# shellcheck shell=bash
# The private PostgreSQL of a stack. Sourced by stack.sh.
# shellcheck disable=SC2154 # dir and conf are of stack_common.sh

# Not "skald": a role finds the schema of its own name first, and the users' tables would
# be created in Skald's.
readonly pg_user=app
pg_databases=(orders payments shipping)

# The programs of the newest server here, or of the version that made the data.
find_postgres() {
  local major='' found
  if [[ -f ${conf[pg_home]:-}/data/PG_VERSION ]]; then major=$(<"${conf[pg_home]}/data/PG_VERSION"); fi
  found=$(compgen -G "/usr/lib/postgresql/${major:-*}/bin/initdb" | sort -V | tail -n 1 || true)
  if [[ ! $found ]]; then
    found=$(readlink -f "$(command -v initdb || true)" || true)
    [[ $found ]] || die 'no PostgreSQL server found (no initdb); run scripts/setup.sh'
    [[ ! $major || $("$found" --version) == *" $major."* ]] ||
      die "the data in ${conf[pg_home]} need PostgreSQL $major, which is not here; use a new DIR"
  fi
  pg_bin=${found%/*}
}

# PostgreSQL refuses to run as root: then it runs as the user postgres (setpriv, unlike runuser, leaves no process in
# between). The environment is emptied, or PGOPTIONS and the like would reach the server.
pg_env=(env -i PATH="$PATH" LANG=C.UTF-8 TZ=UTC HOME=/)
if ((EUID == 0)); then pg_env=(setpriv --reuid=postgres --regid=postgres --init-groups -- "${pg_env[@]}"); fi
as_postgres() { "${pg_env[@]}" "$@"; }

own_by_postgres() {
  if ((EUID == 0)); then chown postgres:postgres "$1"; fi
  chmod 700 "$1"
}

# Chooses where the data live: DIR/postgres or, if the user postgres cannot get there because a parent directory is
# closed, a fresh directory that DIR remembers.
choose_home() {
  local base home
  if ((EUID == 0)); then id -u postgres >/dev/null 2>&1 || die 'there is no user postgres; run scripts/setup.sh'; fi
  if [[ ${conf[pg_home]:-} ]]; then
    if [[ -d ${conf[pg_home]} ]]; then
      home_is_ours || die "${conf[pg_home]}, which $dir/stack.conf names, belongs to another stack"
      return 0
    fi
    say "warning: the data of PostgreSQL are gone (${conf[pg_home]}); starting with empty databases"
  fi
  home=$dir/postgres
  mkdir -p "$home"
  own_by_postgres "$home"
  if ! as_postgres test -w "$home"; then
    rmdir "$home"
    for base in "${TMPDIR:-/tmp}" /tmp /var/tmp; do
      home=$(mktemp -d "$base/skald-postgres.XXXXXX" 2>/dev/null) || continue
      own_by_postgres "$home"
      ! as_postgres test -w "$home" || break
      rmdir "$home"
      home=
    done
    [[ $home ]] || die "the user postgres can reach neither $dir nor a temporary directory; choose another DIR"
    say "the user postgres cannot reach $dir; its data are in $home (removed by: stack.sh down --purge DIR)"
  fi
  printf '%s\n' "$dir" >"$home/.skald-stack"
  conf[pg_home]=$home
}

home_is_ours() {
  [[ ${conf[pg_home]} == "$dir/postgres" ]] ||
    [[ $(cat "${conf[pg_home]}/.skald-stack" 2>/dev/null) == "$dir" ]]
}

# A socket's path may have 107 bytes at most, and a comma would end the setting.
choose_socket() {
  local inside=${conf[pg_home]}/socket
  if [[ ${#inside} -le 88 && $inside != *[!A-Za-z0-9._/@-]* ]]; then
    conf[pg_socket]=$inside
    mkdir -p "$inside"
  elif [[ ! -d ${conf[pg_socket]:-} ]]; then
    conf[pg_socket]=$(mktemp -d /tmp/skald-socket.XXXXXX)
  fi
  own_by_postgres "${conf[pg_socket]}"
}

remove_socket() {
  if [[ ${conf[pg_socket]:-} == /tmp/skald-socket.?????? ]]; then rm -rf -- "${conf[pg_socket]}"; fi
}

# Made under another name and then renamed: an interrupted initdb leaves no half-made cluster.
make_cluster() {
  local home=${conf[pg_home]}
  [[ ! -f $home/data/PG_VERSION ]] || return 0
  say "creating the databases of PostgreSQL in $home"
  rm -rf -- "$home/data.new"
  as_postgres "$pg_bin/initdb" -D "$home/data.new" -U "$pg_user" --auth=trust \
    --encoding=UTF8 --locale=C.UTF-8 >>"$dir/log/postgres.log" 2>&1 3>&- 9>&- || {
    show_log "$dir/log/postgres.log"
    die 'initdb failed'
  }
  # fsync and synchronous_commit stay on: the tests kill this server.
  cat >>"$home/data.new/postgresql.conf" <<'CONF'
max_connections = 400
shared_buffers = 128MB
max_wal_size = 2GB
track_commit_timestamp = on
log_line_prefix = '%m [%p] %q%u@%d '
CONF
  mv "$home/data.new" "$home/data"
}

# A killed server leaves lock files. PostgreSQL takes them for those of a running server if the pid is a zombie or was
# given to another process. The pid is replaced by one that no process can have; the shared-memory line stays, by which
# PostgreSQL finds out whether a backend of the killed server is still alive.
clear_stale_locks() {
  local lock=${conf[pg_home]}/data/postmaster.pid
  rm -f -- "${conf[pg_socket]}"/.s.PGSQL.*
  if [[ -f $lock ]]; then as_postgres sed -i '1s/.*/4194305/' "$lock"; fi
}

# A server of these data that DIR/run does not know (because it was removed or copied) is recorded again; a second one
# must not be tried.
adopt_postgres() {
  local pid stat home=${conf[pg_home]:-}
  [[ $home ]] && { read -r pid <"$home/data/postmaster.pid"; } 2>/dev/null || return 1
  pid_alive "$pid" && [[ " $(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") " == *" -D $home/data "* ]] || return 1
  read_stat "$pid" && printf '%s %s\n' "$pid" "${stat[19]}" >"$dir/run/postgres.pid"
}

begin_postgres() {
  if running postgres || adopt_postgres; then return 0; fi
  need_port pg_port
  choose_home
  find_postgres
  choose_socket
  save_conf
  make_cluster
  clear_stale_locks
  say "starting PostgreSQL on port ${conf[pg_port]}"
  pg_log_start=$(wc -l <"$dir/log/postgres.log")
  launch postgres "${pg_env[@]}" "$pg_bin/postgres" -D "${conf[pg_home]}/data" \
    -c "port=${conf[pg_port]}" -c listen_addresses=127.0.0.1 -c "unix_socket_directories=${conf[pg_socket]}"
}

# The eighth line of postmaster.pid is the server's own report of its state.
postgres_ready() {
  local -a lock=()
  { mapfile -t lock <"${conf[pg_home]}/data/postmaster.pid"; } 2>/dev/null || return 1
  [[ ${lock[0]:-} == "$(pid_of postgres)" && ${lock[7]:-} == ready* ]]
}

# True if another start is worthwhile: the port was taken in the meantime, or the last backends of a killed server are
# just ending.
postgres_may_retry() {
  local new
  new=$(tail -n "+$((pg_log_start + 1))" "$dir/log/postgres.log")
  case $new in
    *'could not create any TCP/IP sockets'*) conf[pg_port]= ;;
    *'pre-existing shared memory block'*) sleep 1 ;;
    *) return 1 ;;
  esac
}

finish_postgres() {
  local end=$((SECONDS + 60)) tries=0
  until postgres_ready; do
    if ! running postgres; then
      if ((tries++ >= 10)) || ! postgres_may_retry; then
        show_log "$dir/log/postgres.log"
        die 'PostgreSQL ended while it was starting; its log above says why'
      fi
      begin_postgres
    fi
    ((SECONDS < end)) || {
      show_log "$dir/log/postgres.log"
      die 'PostgreSQL was not ready after 60 seconds'
    }
    sleep 0.05
  done
  find_postgres
  make_databases
}

make_databases() {
  local list
  printf -v list ",'%s'" "${pg_databases[@]}"
  env -i PATH="$PATH" LANG=C.UTF-8 PGCONNECT_TIMEOUT=10 "$pg_bin/psql" -XqAt -v ON_ERROR_STOP=1 \
    -h 127.0.0.1 -p "${conf[pg_port]}" -U "$pg_user" -d postgres >/dev/null 3>&- 9>&- <<SQL ||
SELECT format('CREATE DATABASE %I', name) FROM unnest(ARRAY[${list:1}]) AS name
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = name) \gexec
SQL
    die "the databases ${pg_databases[*]} could not be created"
}

# SIGINT is the fast mode; a stopped process (SIGSTOP) must be continued to receive it.
signal_stop_postgres() {
  local pid
  pid=$(pid_of postgres) || return 0
  say 'stopping PostgreSQL'
  send INT "$pid"
  send CONT "$pid"
}

await_stop_postgres() {
  local pid
  if pid=$(pid_of postgres) && ! wait_gone 30 "$pid"; then
    say 'PostgreSQL does not stop in 30 seconds: immediate mode'
    send QUIT "$pid"
    wait_gone 10 "$pid" || kill_postgres
  fi
  rm -f "$dir/run/postgres.pid"
  remove_socket
}

# The whole server dies at once, as in a power cut. The server is halted first,
# so that no backend is born while its children are listed.
kill_postgres() {
  local pid i stat
  local -a family
  pid=$(pid_of postgres) || return 0
  send STOP "$pid"
  for ((i = 0; i < 40; i++)); do
    ! read_stat "$pid" || [[ ${stat[0]} != [TZX] ]] || break
    sleep 0.02
  done
  mapfile -t family < <(family_of "$pid")
  send KILL "${family[@]}"
  wait_gone 10 "${family[@]}" || die "PostgreSQL (pid $pid) did not end after SIGKILL"
  rm -f "$dir/run/postgres.pid"
}
