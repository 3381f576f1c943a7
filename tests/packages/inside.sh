#!/usr/bin/env bash
# What somebody does with the packages, in a bare Debian: installs an older version, builds a program with it, upgrades,
# and purges. scripts/packages.sh --test runs it there as root, in a folder with the packages and README.md's program.
set -euo pipefail
cd "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")"
readonly version=$1 packaged=$2
readonly older=$version~git20200101000000.0000000 # a build of an older commit

say() { printf 'packages: %s\n' "$*"; }
die() {
  printf 'packages: error: %s\n' "$*" >&2
  exit 1
}
apt() { apt-get -qq -o Dpkg::Use-Pty=0 "$@" >>apt.log 2>&1 || { tail -n 15 apt.log >&2 && die "apt-get $*"; }; }

# expect WHAT REGEX COMMAND...: it says so, however it ends.
expect() {
  local what=$1 wanted=$2 said
  shift 2
  said=$("$@" 2>&1 </dev/null) || true
  grep -qE -- "$wanted" <<<"$said" || die "$what: expected '$wanted', and this was said: $said"
}

# The same content under another number.
make_older() {
  local package
  mkdir older
  for package in *.deb; do
    dpkg-deb -R "$package" unpacked
    sed -i "s/^Version: .*/Version: $older/; s/(= $packaged)/(= $older)/" unpacked/DEBIAN/control
    dpkg-deb -b unpacked older >/dev/null
    rm -r unpacked
  done
}

check_version() {
  local package is
  for package in libskald0.1 libskald-dev skald-tools skald-doc; do
    is=$(dpkg-query -W -f '${Version}' "$package")
    [[ $is == "$1" ]] || die "$package is of version $is, and should be of $1"
  done
  expect 'the command line' "$version" skald --version
  expect 'the first page' '^# Skald$' head -n 1 /usr/share/doc/skald-doc/README.md
  expect 'the changes' '^## ' cat /usr/share/doc/skald-doc/CHANGELOG.md
  expect 'the alert rules' '^groups:$' cat /usr/share/doc/skald-doc/docker/observability/alerts.yml
  expect 'the dashboard' '"title"' cat /usr/share/doc/skald-doc/docker/observability/dashboard.json
}

build_programs() {
  cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(own LANGUAGES CXX)
find_package(skald 0.1 REQUIRED)
add_executable(by_cmake main.cpp)
target_link_libraries(by_cmake PRIVATE skald::skald)
CMAKE
  cmake -S . -B own >cmake.log 2>&1 && cmake --build own >>cmake.log 2>&1 || { tail -n 20 cmake.log >&2 && die 'by find_package'; }
  # shellcheck disable=SC2046 # words
  g++ -std=c++20 main.cpp $(pkg-config --cflags --libs skald) -o by_pkg_config || die 'by pkg-config'
}

run_programs() {
  local program
  for program in ./own/by_cmake ./by_pkg_config; do
    expect "$program" 'libskald\.so\.0\.1' ldd "$program"
    expect "$program" 'BIND_NOW' readelf --dynamic "$program" # or a libskald that lacks a name is noticed by its deliveries
    expect "$program" 'DATABASE_URL' "$program" --help
    expect "$program" 'SKALD_LANES' env SKALD_LANES=many "$program"
  done
}

# What is inline is each program's own: an older one's must not come into the library, nor the library's into it.
check_exported() {
  local library exported
  for library in /usr/lib/*/libskald*.so; do
    exported=$(nm --dynamic --defined-only --demangle "$library")
    grep -q ' T skald::' <<<"$exported" || die "$library exports nothing of Skald's"
    # Of a template, a table or a static variable there is one in the whole process.
    ! grep -E ' W skald::[^<(]+[(]' <<<"$exported" || die "$library exports inline functions"
  done
}

check_tools() {
  local page
  for page in skald skald-relay skald-saga-list; do expect 'man' "$page" man -l "/usr/share/man/man1/$page.1.gz"; done
  # shellcheck disable=SC2016 # for the shell that completes
  expect 'completion' '^list$' bash -c '. /usr/share/bash-completion/completions/skald; COMP_WORDS=(skald saga l); COMP_CWORD=2; _skald; printf "%s\n" "${COMPREPLY[@]}"'
  local unit units=()
  for unit in /usr/lib/systemd/system/skald-*; do units+=("${unit/@./@payments.}"); done
  mkdir -p /usr/local/libexec/skald && cp by_pkg_config /usr/local/libexec/skald/payments
  systemd-analyze verify --man=no "${units[@]}" || die 'a unit is wrong'
  for unit in "${units[@]}"; do
    ! grep -q '^Restart=' "${unit/@payments/@}" || grep -qx 'StartLimitIntervalSec=0' "${unit/@payments/@}" ||
      die "$unit stays down when it is restarted by hand too often"
    [[ $unit == *.timer ]] || systemd-analyze security --no-pager --offline=yes --threshold=25 "$unit" >security.log ||
      { cat security.log >&2 && die "$unit has more rights than it needs"; }
  done
  rm -r /usr/local/libexec/skald
}

# A project of `skald new`, built and tested as its CI file says, on Debian's own PostgreSQL.
make_project() {
  skald new shop --services orders,payments,shipping >new.log || { cat new.log >&2 && die 'skald new'; }
  # What its CI file installs, but Skald itself; and the server that it starts.
  apt install -y --no-install-recommends postgresql g++ cmake make pkg-config doctest-dev
  pg_ctlcluster "$(pg_lsclusters -h | awk '{ print $1 }')" main start
  runuser -u postgres -- createuser --superuser root
  sed -n '/- name: Build and test/,/- name: The whole proof/{/^          /p}' shop/.github/workflows/ci.yml >build_and_test
  grep -q '^ *ctest ' build_and_test || die 'the CI file of the project runs no tests'
  (cd shop && DATABASE_URL='host=/run/postgresql user=root dbname=postgres' bash -eu ../build_and_test) >project.log 2>&1 ||
    { tail -n 30 project.log >&2 && die 'the project of skald new'; }
  pg_ctlcluster "$(pg_lsclusters -h | awk '{ print $1 }')" main stop
}

purge() {
  systemctl enable skald-console skald-purge@payments.timer >>apt.log 2>&1 || die 'systemctl enable'
  apt purge -y libskald0.1 libskald-dev skald-tools skald-doc
  local left
  left=$(find / -xdev \( -path /proc -o -path /try \) -prune -o -iname '*skald*' -print)
  [[ ! $left ]] || die "purged, and still there: $left"
}

main() {
  apt update
  make_older
  apt install -y --no-install-recommends ./older/*.deb g++ cmake make pkg-config man-db systemd
  check_version "$older"
  build_programs
  run_programs
  say "programs are built by find_package and pkg-config, and run"
  apt install -y ./*.deb
  check_version "$packaged"
  run_programs
  say "upgraded from $older"
  check_exported
  check_tools
  make_project
  say 'a project of skald new is built, and its tests pass'
  purge
  say "purged, and nothing is left"
}

main
