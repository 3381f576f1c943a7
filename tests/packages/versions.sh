#!/usr/bin/env bash
# Which versions scripts/packages.sh gives to packages, in a repository of its own: apt, which passes over those that it finds
# installed and refuses lower ones, must take each build for newer than those of the commits before.
#
#     tests/packages/versions.sh
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null TZ=Asia/Tokyo
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@skald.dev GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@skald.dev
last='' last_of=''

die() {
  printf 'versions: error: %s\n' "$*" >&2
  exit 1
}

# commit TIME
commit() {
  printf '%s\n' "$1" >"$folder/file"
  git -C "$folder" add --all
  GIT_COMMITTER_DATE=$1 git -C "$folder" commit --quiet --message "$1"
}

# is_next WHAT REGEX [OPTION...]: the version there now, which is greater than the last one.
is_next() {
  local what=$1 regex=$2 now
  shift 2
  now=$("$folder/scripts/packages.sh" --show-version "$@")
  [[ $now =~ ^$regex$ ]] || die "the version of $what is $now, and should be like $regex"
  [[ ! $last ]] || dpkg --compare-versions "$now" gt "$last" || die "$now of $what is not greater than $last of $last_of"
  last=$now last_of=$what
}

git init --quiet "$folder"
mkdir -p "$folder/scripts" "$folder/packaging/debian"
cp "$root/scripts/packages.sh" "$folder/scripts/"
cp "$root/packaging/debian/control" "$folder/packaging/debian/"
sed 's/^project(skald VERSION [0-9.]* /project(skald VERSION 0.1.0 /' "$root/CMakeLists.txt" >"$folder/CMakeLists.txt"
sed -i 's/^Package: libskald[0-9.]*$/Package: libskald0.1/' "$folder/packaging/debian/control"

commit 2026-01-31T23:59:59Z
is_next 'a commit' '0\.1\.0~git20260131235959\.[0-9a-f]+\+deb12' --release bookworm
is_next 'the same on the next Debian' '0\.1\.0~git20260131235959\.[0-9a-f]+\+deb13' --release trixie
commit 2026-02-01T00:00:00Z
is_next 'the next commit' '0\.1\.0~git20260201000000\.[0-9a-f]+\+deb12' --release bookworm
: >"$folder/untracked"
is_next 'the same on the next Debian' '0\.1\.0~git20260201000000\.[0-9a-f]+\+deb13' --release trixie
echo more >>"$folder/file"
is_next 'a tree with changes' '0\.1\.0~git[0-9]{14}\.[0-9a-f]+\+dirty\+deb12' --release bookworm
commit 2099-01-01T00:00:00Z
git -C "$folder" tag v0.1.0
is_next 'the release' '0\.1\.0\+deb12' --release bookworm
is_next 'the release on the next Debian' '0\.1\.0\+deb13' --release trixie
commit 2099-01-01T00:00:01Z
is_next 'a commit after it' '0\.1\.0\+git20990101000001\.[0-9a-f]+\+deb12' --release bookworm
sed -i 's/ VERSION 0.1.0 / VERSION 0.1.1 /' "$folder/CMakeLists.txt"
commit 2099-01-01T00:00:02Z
is_next 'a commit on the way to the next release' '0\.1\.1~git20990101000002\.[0-9a-f]+\+deb12' --release bookworm
last=
is_next 'of this machine' '0\.1\.1~git20990101000002\.[0-9a-f]+\+[a-z]+[0-9.]*'
echo "versions: each is greater than the one before"
