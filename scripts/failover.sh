#!/usr/bin/env bash
# A primary and a synchronous standby of PostgreSQL, and what happens to orders
# when the primary dies. See usage() below.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

here=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source=lib/stack_common.sh
source "$here/lib/stack_common.sh"
# shellcheck source=lib/stack_postgres.sh
source "$here/lib/stack_postgres.sh"

usage() {
  cat <<'USAGE'
usage: scripts/failover.sh PROGRAM [ARGS...]
       scripts/failover.sh fail DIR

The first makes, in a temporary directory, a private RabbitMQ and two private
servers of PostgreSQL: a primary, and a standby that every COMMIT waits for. It
runs PROGRAM with DATABASE_URL (both hosts), AMQP_URL, SKALD_TEST_STACK and
SKALD_FAILOVER_DIR, says how many connections the standby was asked for from its
promotion on, and removes everything. Its exit status is that of PROGRAM.

    scripts/failover.sh build/tests/integration/services/service_tests \
        '--source-file=*/failover_faults_test.cpp' '--test-case=the primary*'

The second is for PROGRAM: kills the primary of SKALD_FAILOVER_DIR by SIGKILL, all
of its processes at once, and promotes the standby. The primary stays dead.
USAGE
}

pg_ctl() { as_postgres "$pg_bin/pg_ctl" -D "$dir/standby/data" "$@" >>"$dir/standby.ctl.log" 2>&1; }

enter() {
  dir=$(cd -- "$1" && pwd -P) || die "cannot enter $1"
  cd /
  find_postgres
}

fail() {
  enter "$1"
  "$here/stack.sh" kill "$dir/primary" postgres
  wc -l <"$dir/standby.log" >"$dir/promoted_at"
  pg_ctl promote -w || die "the standby could not be promoted; see $dir/standby.log"
}

ask_primary() { psql -XqAt -v ON_ERROR_STOP=1 "$primary" -c "$1"; }

make_standby() {
  need_port pg_port
  standby_port=${conf[pg_port]}
  mkdir -p "$dir/standby"
  own_by_postgres "$dir/standby"
  touch "$dir/standby.log" "$dir/standby.ctl.log"
  if ((EUID == 0)); then chown postgres "$dir/standby.log"; fi
  as_postgres "$pg_bin/pg_basebackup" -d "$primary" -D "$dir/standby/data" -R -X stream --checkpoint=fast
  local options="-p $standby_port -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c log_connections=on"
  pg_ctl start -w -l "$dir/standby.log" -o "$options" || die "the standby did not start; see $dir/standby.log"
  # Only now: earlier, no standby could have answered a COMMIT. And not in the backup: the standby has none of its own.
  ask_primary "ALTER SYSTEM SET synchronous_standby_names = '*'"
  ask_primary 'SELECT pg_reload_conf()' >/dev/null
  local end=$((SECONDS + 30))
  until [[ $(ask_primary "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1 ]]; do
    ((SECONDS < end)) || die 'the standby is not in step with the primary after 30 seconds'
    sleep 0.1
  done
}

remove() {
  local status=$?
  trap - EXIT
  if ((status != 0)); then show_log "$dir/standby.log" || true; fi
  pg_ctl stop -m immediate || true
  "$here/stack.sh" down --purge "$dir/primary" || true
  rm -rf -- "$dir"
  exit "$status"
}

main() {
  case ${1:-} in
    '' | -h | --help)
      usage
      exit $((${#1} == 0 ? 1 : 0))
      ;;
    fail)
      (($# == 2)) || die 'fail needs DIR; see --help'
      fail "$2"
      exit 0
      ;;
  esac
  local program exports primary standby_port status=0
  program=$(readlink -f -- "$1") && [[ -x $program ]] || die "there is no program $1; see --help"
  shift
  enter "$(mktemp -d /tmp/skald-failover.XXXXXX)"
  chmod 755 "$dir"
  trap remove EXIT
  exports=$("$here/stack.sh" up "$dir/primary")
  eval "$exports"
  primary=$DATABASE_URL
  make_standby
  export DATABASE_URL=${primary/\/postgres/,127.0.0.1:$standby_port/postgres}
  export SKALD_TEST_STACK=$dir/primary SKALD_FAILOVER_DIR=$dir
  "$program" "$@" || status=$?
  if [[ -f $dir/promoted_at ]]; then
    say "$(tail -n "+$(<"$dir/promoted_at")" "$dir/standby.log" | grep -c 'connection received') connections were asked for" \
      'from the promotion on'
  fi
  exit "$status"
}

main "$@"
