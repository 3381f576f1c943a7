#!/usr/bin/env bash
# Installs what Skald's build and tests need from the distribution's packages. Asks dpkg first: when nothing is missing
# it does not run apt at all, so that it is quick and works offline. Starts no system service.
set -euo pipefail

readonly base_packages=(
  g++ cmake ninja-build pkg-config git ca-certificates curl
  libpqxx-dev librabbitmq-dev libhiredis-dev librdkafka-dev libcurl4-openssl-dev libssl-dev libfmt-dev
  nlohmann-json3-dev prometheus-cpp-dev doctest-dev libcli11-dev libcpp-httplib-dev librapidcheck-dev
  patch procps python3 util-linux abigail-tools
)
readonly server_packages=(postgresql postgresql-client rabbitmq-server pgbouncer redis-server)
readonly image_packages=(
  podman podman-compose crun netavark aardvark-dns iptables iproute2
  debootstrap debian-archive-keyring ca-certificates curl openssl procps util-linux
)
readonly observability_packages=(prometheus)
# Debian's browser, and what drives it in the console's test.
readonly browser_packages=(chromium fonts-dejavu-core curl postgresql-client python3)
# A node of Kafka is made of jars, which Maven brings: scripts/kafka.sh.
readonly kafka_packages=(default-jre-headless maven)
# What an SDK is installed with and tested in: pip brings the rest.
readonly language_packages=(python3 python3-venv)
readonly policy_file=/usr/sbin/policy-rc.d
readonly cluster_dir=/etc/postgresql-common/createcluster.d
readonly cluster_file=$cluster_dir/skald-setup.conf
readonly mark='temporary, made by the set-up script of Skald'

usage() {
  cat <<'USAGE'
usage: scripts/setup.sh [--dev | --no-servers | --observability | --kafka | --s3 | --languages |
                        --image | --browser]

Installs what the build and the tests need (Debian 12, Debian 13, Ubuntu 24.04).
Does nothing when all of it is installed. Needs root, or sudo, only when a
package is missing. No service is started.

  --dev          also clang, clang-format, clang-tidy, clang-tools, doxygen and
                 the run-time libraries of clang's sanitizers and of libFuzzer
  --no-servers   no PostgreSQL, RabbitMQ and pgbouncer: for a build alone
  --observability
                 also Prometheus with promtool, for scripts/observability.sh
  --kafka        also Java and Maven, for scripts/kafka.sh
  --s3           also nodejs and npm, for scripts/test.sh s3
  --languages    also Python's venv, nodejs, npm, Go, Java and Maven, for
                 .ci/run languages
  --image        what scripts/image.sh needs instead: podman, podman-compose
                 and debootstrap
  --browser      what tests/console/browser needs instead: chromium, nodejs and npm
  --help         this text
USAGE
}

say() { printf 'setup: %s\n' "$*"; }
warn() { printf 'setup: warning: %s\n' "$*" >&2; }
die() {
  printf 'setup: error: %s\n' "$*" >&2
  exit 1
}

# Fills the array "wanted" for this distribution.
choose_packages() {
  local what=$1 codename
  [[ -r /etc/os-release ]] || die 'no /etc/os-release: cannot tell which distribution this is'
  command -v dpkg-query >/dev/null || die \
    'this is no Debian or Ubuntu (no dpkg-query); install by hand what docs/install.md names'
  # A derivative names the Ubuntu release that it is based on.
  # shellcheck disable=SC1091
  codename=$(. /etc/os-release && printf '%s' "${UBUNTU_CODENAME:-${VERSION_CODENAME:-unknown}}")

  if [[ $what == image ]]; then
    wanted=("${image_packages[@]}")
    return
  fi
  if [[ $what == browser ]]; then
    wanted=("${browser_packages[@]}")
    # Not over a Node.js from elsewhere, whose npm excludes the distribution's.
    command -v npm >/dev/null || wanted+=(nodejs npm)
    return
  fi
  wanted=("${base_packages[@]}")
  [[ $what == no-servers ]] || wanted+=("${server_packages[@]}")
  [[ $what != observability ]] || wanted+=("${observability_packages[@]}")
  # Not over a Java and a Maven from elsewhere.
  [[ $what != kafka ]] || { command -v java && command -v mvn; } >/dev/null || wanted+=("${kafka_packages[@]}")
  [[ $what != languages ]] || wanted+=("${language_packages[@]}")
  # Nor over a Go.
  [[ $what != languages ]] || command -v go >/dev/null || wanted+=(golang-go)
  [[ $what != languages ]] || { command -v javac && command -v mvn; } >/dev/null || wanted+=(default-jdk-headless maven)
  # Nor over a Node.js.
  [[ $what != s3 && $what != languages ]] || command -v npm >/dev/null || wanted+=(nodejs npm)
  local clang_major=
  case $codename in
    # Not libboost-dev (1.74) on Debian 12: it and libboost1.81-dev replace each other.
    bookworm) wanted+=(libboost1.81-dev) clang_major=14 ;;
    trixie) wanted+=(libboost1.83-dev) clang_major=19 ;;
    noble) wanted+=(libboost1.83-dev) clang_major=18 ;;
    *)
      wanted+=(libboost-dev)
      warn "release '$codename' is not one of Debian 12, Debian 13, Ubuntu 24.04; trying its default packages"
      ;;
  esac
  if [[ $what == dev ]]; then
    wanted+=(clang clang-format clang-tidy clang-tools "libclang-rt-${clang_major:+$clang_major-}dev" doxygen)
  fi
}

# Fills the array "missing" with the wanted packages that are not installed.
find_missing() {
  local name state
  local -A installed=()
  while read -r name state; do
    [[ $state == ?i* ]] && installed[$name]=1 # second letter: the actual state
  done < <(dpkg-query -W -f '${Package} ${db:Status-Abbrev}\n' "${wanted[@]}" 2>/dev/null || true)
  missing=()
  for name in "${wanted[@]}"; do
    [[ ${installed[$name]:-} ]] || missing+=("$name")
  done
}

# What a user can type who has neither root nor sudo.
apt_command() {
  printf 'apt-get update && apt-get install -y --no-install-recommends %s' "${missing[*]}"
}

as_root_or_die() {
  ((EUID != 0)) || return 0
  command -v sudo >/dev/null || die "${#missing[@]} packages are missing, and this is neither root nor is sudo here." \
    "Run as root:
  $(apt_command)"
  say 'only root can install them: using sudo'
  sudo -- env SKALD_SETUP_LISTED=1 bash "$self" "$@" || die "installing with sudo failed. By hand, as root:
  $(apt_command)"
  exit 0
}

marked() { [[ -f $1 ]] && grep -qF "$mark" "$1"; }

# Removes only what this script made, including what a killed run of it left.
remove_guards() {
  local file
  for file in "$policy_file" "$cluster_file"; do
    if marked "$file"; then rm -f "$file"; fi
  done
  if [[ ${made_cluster_dir:-} ]]; then rmdir "$cluster_dir" 2>/dev/null || true; fi
}

# A set-up that was killed while apt worked has left its guards, unless it is still running.
clean_up_after_killed() {
  if marked "$policy_file" && ((EUID == 0)) && (flock -n 8) 8</usr/sbin; then remove_guards; fi
}

# Debian starts the services that it installs, and makes a default database cluster. Both are prevented; an existing
# policy-rc.d is left alone.
place_guards() {
  trap remove_guards EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  if [[ -e $policy_file ]]; then
    marked "$policy_file" || "$policy_file" postgresql start >/dev/null 2>&1 ||
      (($? == 101)) || warn "$policy_file exists and may let services start; left as it is"
  else
    printf '#!/bin/sh\n# %s: start no service\nexit 101\n' "$mark" >"$policy_file"
    chmod 755 "$policy_file"
  fi
  # Only for a first installation: someone who has a server may want its clusters.
  if ! compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; then
    if [[ ! -d $cluster_dir ]]; then
      mkdir -p "$cluster_dir"
      made_cluster_dir=1
    fi
    printf '# %s\ncreate_main_cluster = false\n' "$mark" >"$cluster_file"
  fi
}

# One apt-get run; its output goes to the log. The lock (descriptor 8) is not passed on, and needrestart must not
# restart services on Ubuntu.
run_apt() {
  DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 LC_ALL=C.UTF-8 \
    apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
    -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
    "$@" >>"$log" 2>&1 </dev/null 8<&-
}

install_missing() {
  local try
  for try in 1 2 3; do
    # A stale list names files that the mirror no longer has, so always update;
    # a mirror that is only half there may still be enough for the install.
    run_apt update || warn "apt-get update failed (try $try of 3)"
    if run_apt install -y --no-install-recommends "${missing[@]}"; then return 0; fi
    # A package that does not exist will not exist in five seconds either.
    if grep -q 'Unable to locate package\|has no installation candidate' "$log" && ((try > 1)); then break; fi
    ((try == 3)) || sleep $((try * 5))
  done
  tail -n 25 "$log" >&2
  die "apt-get failed (whole output: $log). On Ubuntu the component 'universe' must be enabled. By hand, as root:
  $(apt_command)"
}

hint_next_boot() {
  local name
  [[ -d /run/systemd/system ]] || return 0
  for name in rabbitmq-server pgbouncer; do
    [[ " $* " == *" $name "* ]] || continue
    say "no service was started; Debian's package starts $name at the next boot unless: systemctl disable $name"
  done
}

main() {
  local what=
  self=$(readlink -f -- "${BASH_SOURCE[0]}")
  for arg in "$@"; do
    case $arg in
      --dev | --no-servers | --observability | --kafka | --s3 | --languages | --image | --browser)
        [[ -z $what || --$what == "$arg" ]] || { usage >&2 && die "--$what and $arg do not go together"; }
        what=${arg#--}
        ;;
      -h | --help) usage && exit 0 ;;
      *) usage >&2 && die "unknown argument '$arg'" ;;
    esac
  done

  choose_packages "$what"
  find_missing
  if ((${#missing[@]} == 0)); then
    clean_up_after_killed
    say "nothing to do, all ${#wanted[@]} packages are installed"
    return 0
  fi
  # Under sudo this was printed already, before the password prompt.
  [[ ${SKALD_SETUP_LISTED:-} ]] || say "${#missing[@]} packages are missing: ${missing[*]}"
  as_root_or_die "$@"

  # One set-up at a time, or one would remove the guards of another.
  exec 8</usr/sbin
  flock -w 900 8 || die 'another set-up has been running for 15 minutes'
  find_missing
  if ((${#missing[@]} == 0)); then
    say 'nothing to do, another set-up has just installed everything'
    return 0
  fi

  log=$(mktemp "${TMPDIR:-/tmp}/skald-setup.XXXXXX.log")
  say "installing ${#missing[@]} packages, which takes some minutes (log: $log)"
  local -a todo=("${missing[@]}")
  place_guards
  install_missing
  find_missing
  ((${#missing[@]} == 0)) || die "apt-get succeeded, yet these are not installed: ${missing[*]} (log: $log)"
  rm -f "$log"
  say "installed ${#todo[@]} packages; ${#wanted[@]} of ${#wanted[@]} are there"
  hint_next_boot "${todo[@]}"
}

main "$@"
