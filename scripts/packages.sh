#!/usr/bin/env bash
# Debian's packages of Skald, built and tried out in roots of their own, and Conan's. See usage() below.
set -euo pipefail

self=$(readlink -f -- "${BASH_SOURCE[0]}")
root=$(cd -- "$(dirname -- "$self")/.." && pwd)
readonly self root made=$root/build/packages

release=
test=
conan=
show=

usage() {
  cat <<'USAGE'
usage: scripts/packages.sh [--release bookworm|trixie] [--test | --show-version]
       scripts/packages.sh --conan

Builds libskald0.1, libskald-dev, skald-tools and skald-doc of what is in this tree, looks at them with lintian, and puts
them into build/packages/RELEASE.

  --release R   of that Debian, in a root of its own that debootstrap makes (root, or sudo); without it of this machine's,
                which must have lintian, dpkg-dev, and what packaging/debian/control names under Build-Depends
  --test        also installs them in another bare root of that release: a program is built there by find_package and by
                pkg-config and run, the packages are upgraded from an older version, and purged. Needs --release
  --show-version   says which version the packages would have, and builds nothing
  --conan       Conan's package instead, on this machine's own libraries (scripts/setup.sh): built, and README.md's program
                with it, by a Conan that pip installs in build/packages
  --help        this text
USAGE
}

say() { printf 'packages: %s\n' "$*"; }
die() {
  printf 'packages: error: %s\n' "$*" >&2
  exit 1
}

parse() {
  while (($# > 0)); do
    case $1 in
      -h | --help) usage && exit 0 ;;
      --test) test=1 ;;
      --conan) conan=1 ;;
      --show-version) show=1 ;;
      --release)
        [[ ${2-} == bookworm || ${2-} == trixie ]] || die '--release is bookworm or trixie'
        release=$2 && shift
        ;;
      *) die "unknown option '$1' (--help lists the options)" ;;
    esac
    shift
  done
  [[ $release || ! $test ]] || die '--test needs --release'
  [[ ! $conan || ! $release ]] || die '--conan and --release do not go together'
}

# The one place that has it is CMakeLists.txt.
find_version() {
  version=$(sed -nE 's/^project\(skald VERSION ([0-9.]+) .*/\1/p' "$root/CMakeLists.txt")
  [[ $version ]] || die 'CMakeLists.txt has no version'
  grep -q "^Package: libskald${version%.*}$" "$root/packaging/debian/control" ||
    die "packaging/debian/control has no package libskald${version%.*}: the soname has changed"
}

# What apt goes by, which passes over a package whose version is installed: each commit has one of its own, the later the greater,
# between the releases; and each Debian, since the libraries of C++ that it is built on have other ABIs there.
find_package_version() {
  local git=(git --no-optional-locks -C "$root") at of lead='~git'
  case $release in
    bookworm) of=deb12 ;;
    trixie) of=deb13 ;;
    *) of=$(. /etc/os-release && printf '%s%s' "${ID/debian/deb}" "${VERSION_ID-}") ;;
  esac
  at=$(TZ=UTC0 "${git[@]}" log -1 --date=format-local:%Y%m%d%H%M%S --format=%cd.%h)
  if [[ $("${git[@]}" status --porcelain --untracked-files=no) ]]; then
    at=$(date -u +%Y%m%d%H%M%S).${at#*.}+dirty
  elif [[ $("${git[@]}" tag --points-at HEAD --list "v$version") ]]; then
    at=
  fi
  if "${git[@]}" merge-base --is-ancestor "v$version" HEAD 2>/dev/null; then lead=+git; fi
  package_version=$version${at:+$lead$at}+$of
}

# export_tree FOLDER: what git knows, as it is now, with debian/ where dpkg looks for it.
export_tree() {
  local tree=$1
  rm -rf -- "$tree" && mkdir -p "$tree"
  (cd "$root" && git ls-files -z | while IFS= read -r -d '' f; do [[ ! -e $f ]] || printf '%s\0' "$f"; done |
    tar --null --files-from - -c) | tar -C "$tree" -x
  mv "$tree/packaging/debian" "$tree/debian"
  printf 'skald (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' "$package_version" \
    'Skald maintainers <skald@skald.dev>' "$(cd "$root" && git log -1 --format=%cD)" >"$tree/debian/changelog"
}

# build_here FOLDER: in FOLDER/skald; what it makes lies beside it.
readonly build_here='cd "$1/skald" && DEB_BUILD_OPTIONS="nocheck noautodbgsym parallel=$(nproc)" dpkg-buildpackage -b -us -uc &&
  lintian --fail-on error --tag-display-limit 0 ../skald_*.changes'

make_root() {
  local where=$1
  say "making a bare $release"
  debootstrap --variant=minbase "$release" "$where" >"$made/$release-debootstrap.log" 2>&1 ||
    { tail -n 5 "$made/$release-debootstrap.log" >&2 && die 'debootstrap failed'; }
  printf '#!/bin/sh\nexit 101\n' >"$where/usr/sbin/policy-rc.d" && chmod 755 "$where/usr/sbin/policy-rc.d"
  cp /etc/resolv.conf "$where/etc/resolv.conf"
  mount -t proc proc "$where/proc"
}

# inside ROOT COMMAND...
inside() {
  local where=$1
  shift
  chroot "$where" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

build_in_root() {
  local where=$made/root-build
  make_root "$where"
  mkdir "$where/build"
  export_tree "$where/build/skald"
  inside "$where" bash -euc 'apt-get -qq update && apt-get -qq install -y --no-install-recommends build-essential lintian >/dev/null &&
    cd /build/skald && apt-get -qq build-dep -y --no-install-recommends ./ >/dev/null' || die 'the packages for the build can not be installed'
  inside "$where" bash -euc "$build_here" build /build
  collect "$where/build"
}

collect() {
  rm -rf "${made:?}/$name" && mkdir -p "$made/$name"
  mv "$1"/*.deb "$made/$name/"
  say "built in $SECONDS s:"
  (cd "$made/$name" && ls -s --block-size=KiB -- *.deb)
}

try_in_root() {
  local where=$made/root-test
  make_root "$where"
  mkdir "$where/try"
  cp "$made/$name"/*.deb "$root/tests/packages/inside.sh" "$where/try/"
  python3 "$root/tests/docs/pages.py" program "$root" README.md "$where/try/main.cpp"
  inside "$where" bash /try/inside.sh "$version" "$package_version"
  say "tried in a bare $release"
}

create_conan() {
  local venv=$made/conan-venv
  export CONAN_HOME=$made/conan
  [[ -x $venv/bin/pip ]] || python3 -m venv "$venv" || die 'python3-venv is missing: scripts/setup.sh --languages'
  "$venv/bin/pip" install --quiet 'conan>=2.4,<3'
  "$venv/bin/conan" profile detect --force >/dev/null 2>&1
  # No remote: what it is built on comes from this machine.
  "$venv/bin/conan" create "$root" --no-remote -s compiler.cppstd=20 -o '&:system=True'
  say "Conan's package is built and used in $SECONDS s"
}

# Also what a killed run has left, which may be of another release or half made.
remove_roots() {
  local where
  for where in "$made"/root-{build,test}; do
    if mountpoint -q "$where/proc"; then umount "$where/proc"; fi
    rm -rf --one-file-system -- "$where"
  done
}

# Of whoever called sudo, who could not replace it otherwise.
give_back() {
  [[ ! ${SUDO_UID-} ]] || chown -R -- "$SUDO_UID:${SUDO_GID:-0}" "$made"
}

main() {
  parse "$@"
  find_version
  if [[ $conan ]]; then
    create_conan
    return
  fi
  find_package_version
  if [[ $show ]]; then
    printf '%s\n' "$package_version"
    return
  fi
  mkdir -p "$made"
  if [[ ! $release ]]; then
    local tool
    for tool in dpkg-buildpackage lintian; do command -v "$tool" >/dev/null || die "$tool is missing here (--help says what is needed)"; done
    rm -rf "$made/here"
    name=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")
    export_tree "$made/here/skald"
    bash -euc "$build_here" build "$made/here"
    collect "$made/here"
    rm -rf "$made/here"
    return
  fi
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die 'a root of its own needs root, and this is neither root nor is sudo here'
    exec sudo -- bash "$self" "$@"
  fi
  command -v debootstrap >/dev/null || apt-get install -y -qq debootstrap >/dev/null
  name=$release
  exec {lock}>"$made/lock"
  flock --nonblock "$lock" || die "another run builds packages in $made: wait for its end"
  remove_roots
  trap 'remove_roots; give_back' EXIT
  build_in_root
  if [[ $test ]]; then try_in_root; fi
}

main "$@"
