#!/usr/bin/env bash
# What scripts/image.sh does in its namespaces, where this is process 1: the bases, the image, the test.
#
#     image_inside.sh ROOT FOLDER auto|pull|make 'test' or '' FILE or ''
set -euo pipefail

readonly root=$1 folder=$2 base=$3 test=$4 save=$5
readonly bases=(debian:bookworm-slim postgres:15-bookworm rabbitmq:3.13) # as docker/Dockerfile and docker/compose.yaml name them
readonly image=skald-order-saga

say() { printf 'image: %s\n' "$*"; }
die() {
  printf 'image: error: %s\n' "$*" >&2
  exit 1
}

# logged NAME COMMAND...: the output goes to a log, and is shown only on failure.
logged() {
  local log=$folder/logs/$1.log from=$SECONDS
  shift
  # Not in the condition itself, where bash would continue after a failure in a function.
  "$@" >"$log" 2>&1 </dev/null &
  if ! wait $!; then
    tail -n 40 "$log" >&2
    die "this failed: $*"
  fi
  printf 'that took %d s\n' $((SECONDS - from)) >>"$log"
}

# Sockets, networks and locks that podman keeps outside its storage: not those of this machine's own podman.
own_run_folders() {
  local resolver
  resolver=$(realpath /etc/resolv.conf)
  cp -- "$resolver" "$folder/resolv.conf"
  mount -t tmpfs tmpfs /run
  mount -t tmpfs tmpfs /dev/shm
  if [[ $resolver == /run/* ]]; then
    mkdir -p -- "$(dirname -- "$resolver")"
    cp -- "$folder/resolv.conf" "$resolver"
  fi
  # crun refuses a mix of both versions. The containers get no groups, but it checks all the same.
  if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi
}

# least_of A B: where A may be `unlimited`.
least_of() { if [[ $1 == unlimited ]] || (($1 > $2)); then echo "$2"; else echo "$1"; fi; }

own_settings() {
  local driver=overlay
  # If this is a container itself.
  if [[ $(stat --file-system --format %T "$folder") == overlayfs ]]; then driver=vfs; fi
  # podman wants to raise both limits, which root in a virtual machine may not be allowed to do.
  cat >"$folder/containers.conf" <<CONF
[containers]
cgroups = "disabled"
default_ulimits = ["nofile=$(least_of "$(ulimit -Hn)" 1048576):$(least_of "$(ulimit -Hn)" 1048576)",
                   "nproc=$(least_of "$(ulimit -Hu)" 32768):$(least_of "$(ulimit -Hu)" 32768)"]
[network]
network_backend = "netavark"
network_config_dir = "$folder/networks"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "crun"
CONF
  cat >"$folder/storage.conf" <<CONF
[storage]
driver = "$driver"
graphroot = "$folder/storage"
runroot = "/run/skald-storage"
CONF
  mkdir "$folder/networks" "$folder/tmp" "$folder/home"
  # The format is Docker's, because OCI's has no HEALTHCHECK.
  export CONTAINERS_CONF=$folder/containers.conf CONTAINERS_STORAGE_CONF=$folder/storage.conf BUILDAH_FORMAT=docker
  export TMPDIR=$folder/tmp HOME=$folder/home
  unset XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_DATA_HOME
}

# By Docker's rules for short names, whatever this machine's podman is configured to do. The first is small: if it takes
# longer, no registry is in reach.
pull_bases() {
  local name patience=120
  [[ $base != pull ]] || patience=900
  for name in "${bases[@]}"; do
    timeout "$patience" podman pull "docker://$name" && podman tag "docker://$name" "localhost/$name" || return 1
    patience=900
  done >"$folder/logs/pull.log" 2>&1
}

# As the image of that name: nothing unnecessary, no service is started at installation, no waiting for the disk.
make_debian() {
  local tree=$folder/debian
  debootstrap --variant=minbase bookworm "$tree"
  printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d"
  chmod 755 "$tree/usr/sbin/policy-rc.d"
  printf 'force-unsafe-io\n%s\n%s\n' 'path-exclude /usr/share/doc/*' 'path-exclude /usr/share/man/*' \
    >"$tree/etc/dpkg/dpkg.cfg.d/container"
  rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/* "$tree"/usr/share/{doc,man}/*
  tar -C "$tree" -c . | podman import --change 'CMD ["bash"]' - "localhost/${bases[0]}"
  rm -rf -- "$tree"
}

build() {
  local name=$1 file=$2 context=$3
  # The network is this machine's: no bridge is needed to reach Debian's packages. There is no next time for which
  # layers would be kept.
  podman build --network host --layers=false --file "$file" --tag "localhost/$name" "$context"
}

make_servers() {
  build "${bases[1]}" "$root/tests/image/postgres.Dockerfile" "$root/tests/image"
  build "${bases[2]}" "$root/tests/image/rabbitmq.Dockerfile" "$root/tests/image"
}

# What an image of this name has that a program which runs does not need, a line each.
needless() {
  local listed
  podman create --name listed "localhost/$1" x >/dev/null
  listed=$(podman export listed | tar -tv)
  podman rm listed >/dev/null
  awk '
    $1 ~ /^-..[sS]|^-.....[sS]/ { print "setuid or setgid: " $6 }
    $6 ~ /\/s?bin\/([a-z0-9_-]*(gcc|g\+\+|clang|cpp|cc1plus|objdump)[a-z0-9.+-]*|cc|c\+\+|ld|as|make|cmake|ninja)$/ { print "a compiler: " $6 }
    $6 ~ /\/s?bin\/(apt|apt-get|dpkg|pip3?|npm|perl|python3?[0-9.]*)$/ { print "a package manager or interpreter: " $6 }
    $6 ~ /\/s?bin\/(sh|dash|zsh|busybox)$/ { print "a shell: " $6 }
    $6 ~ /\.(h|hpp|a|la)$|\.pc$/ { print "for a build: " $6 }' <<<"$listed"
}

# Small, and only what it needs; in the base, where there is all of it, that is found.
is_lean() {
  local size found
  size=$(podman image inspect --format '{{.Size}}' "localhost/$image")
  ((size <= 120000000)) || die "the image has $size bytes, and 120000000 are allowed: docker/runtime_tree says what goes into it"
  found=$(needless "$image")
  [[ ! $found ]] || die "the image has what it does not need:
$found"
  found=$(needless "${bases[0]}")
  [[ $found == *'setuid or setgid'* && $found == *'a package manager'* && $found == *'a shell'* ]] ||
    die "what ${bases[0]} has of it is not found: $found"
}

# In a network of its own, whose bridges, rules and ports are removed with it. It reaches no other, so a name that no
# container has must be refused at once: if it were looked up on an unreachable server, the client would be held up for
# most of a minute.
try_image() {
  printf 'nameserver 127.0.0.1\noptions timeout:1 attempts:2\n' >"$folder/resolv.conf"
  mount --bind "$folder/resolv.conf" "$(realpath /etc/resolv.conf)"
  unshare --net bash "$root/tests/image/services.sh" "$folder"
  umount "$(realpath /etc/resolv.conf)"
}

main() {
  local servers=
  cd "$root"
  own_run_folders
  own_settings
  if [[ $base != make ]] && pull_bases; then
    say "the bases are pulled: ${bases[*]}"
  else
    [[ $base != pull ]] || { tail -n 3 "$folder/logs/pull.log" >&2 && die 'no registry is in reach, or not all it should have'; }
    say 'making the bases from the packages of Debian'
    logged debian make_debian
    # While the compiler works.
    if [[ $test ]]; then logged servers make_servers & servers=$!; fi
  fi
  say "building the image (some minutes)"
  logged build build "$image" docker/Dockerfile .
  if [[ $servers ]]; then wait "$servers"; fi
  say "built in $SECONDS s: $(podman image inspect --format '{{.Size}}' "localhost/$image") bytes"
  is_lean
  if [[ $test ]]; then try_image; fi
  if [[ $save ]]; then logged save podman save --format docker-archive --output "$save" "localhost/$image"; fi
}

main
