#!/usr/bin/env bash
# The image of docker/Dockerfile, built and tried with podman, without Docker and, if need be, without an image
# registry. See usage() below.
set -euo pipefail

self=$(readlink -f -- "${BASH_SOURCE[0]}")
root=$(cd -- "$(dirname -- "$self")/.." && pwd)
readonly self root

test=1
save=
base=auto
folder= # this run's: all that podman has, and the logs
inside= # the pid of what runs in the namespaces

usage() {
  cat <<'USAGE'
usage: scripts/image.sh [options]

Builds the image of docker/Dockerfile and runs the order example in containers of it, by podman and then, with
docker/compose.yaml, by podman-compose (tests/image/services.sh). All of it happens in namespaces and in a folder of
its own under build/: nothing keeps running, no port of this machine is taken, and no image stays in any storage.

  --base pull    take debian, postgres and rabbitmq from a registry
  --base make    make Debian by debootstrap, and what stands in for the others from its packages (tests/image); without
                 --base they are pulled, and made where they can't be
  --save FILE    write the image to FILE (new), for podman load and docker load
  --no-test      only build it
  --help         this text

Needs root, or sudo, and about 3 GB in build/; `scripts/setup.sh --image`, which it runs first, installs podman and
debootstrap. Takes about six minutes on two cores. The logs of a run that failed are in build/image-failed-logs.
USAGE
}

say() { printf 'image: %s\n' "$*"; }
die() {
  printf 'image: error: %s\n' "$*" >&2
  exit 1
}
usage_error() {
  printf 'image: error: %s (--help lists the options)\n' "$*" >&2
  exit 2
}

parse() {
  while (($# > 0)); do
    case $1 in
      -h | --help) usage && exit 0 ;;
      --no-test) test= ;;
      --base)
        [[ ${2-} == pull || ${2-} == make ]] || usage_error '--base is pull or make'
        base=$2 && shift
        ;;
      --save)
        [[ ${2-} ]] || usage_error '--save needs a FILE'
        save=$(realpath -m -- "$2") && shift
        [[ ! -e $save ]] || usage_error "--save: $save is there already"
        [[ -w $(dirname -- "$save") ]] || usage_error "--save: cannot write in $(dirname -- "$save")"
        ;;
      *) usage_error "unknown option '$1'" ;;
    esac
    shift
  done
}

# Containers with their own networks need root. What is left in build/ stays the caller's.
become_root() {
  ((EUID != 0)) || return 0
  command -v sudo >/dev/null || die 'podman is run as root, and this is neither root nor is sudo here'
  say 'podman is run as root: using sudo'
  exec sudo -- bash "$self" "$@"
}

give_back() {
  [[ ! ${SUDO_UID-} || ! -e $1 ]] || chown -R -- "$SUDO_UID:${SUDO_GID:-0}" "$1"
}

# Runs at every exit. The first process of the namespaces takes all others with it, and their mounts.
clean_up() {
  local code=$? first
  trap '' INT TERM HUP
  trap - EXIT
  set +e
  if [[ $inside ]]; then
    for first in $(pgrep -P "$inside"); do kill -KILL "$first"; done
    wait "$inside"
  fi
  if ((code == 1)); then
    rm -rf -- "$root/build/image-failed-logs"
    mv -- "$folder/logs" "$root/build/image-failed-logs"
    give_back "$root/build/image-failed-logs"
    say "the logs of this run are in $root/build/image-failed-logs"
  fi
  rm -rf --one-file-system -- "$folder"
  exit "$code"
}

make_folder() {
  mkdir -p -- "$root/build"
  folder=$(mktemp -d "$root/build/image.XXXXXX")
  mkdir "$folder/logs"
  trap clean_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
}

main() {
  local code=0
  parse "$@"
  mkdir -p -- "$root/build"
  "$root/scripts/setup.sh" --image
  become_root "$@"
  make_folder
  # In the background and waited for, so that a signal to this script is handled at once.
  unshare --mount --propagation private --pid --fork --kill-child --mount-proc \
    bash "$root/scripts/lib/image_inside.sh" "$root" "$folder" "$base" "${test:+test}" "$save" &
  inside=$!
  wait "$inside" || code=$?
  inside=
  ((code == 0)) || exit 1
  if [[ $save ]]; then give_back "$save"; fi
}

main "$@"
