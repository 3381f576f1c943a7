#!/usr/bin/env bash
# Sagas over processes of two builds of Skald at once, on the same databases: this checkout's, and that of an older commit.
#
#   scripts/two_builds.sh [COMMIT]
#
# COMMIT is the version before: by default the last release, or before there is one, what was there before migration 0020, the
# first that only adds. Until 0.1 an older migration may still be edited: the older build is then given today's text of it. Both are
# built, and the tests of tests/integration/services/versions_test.cpp run with two processes of each service, one of either
# build, while these are replaced and killed.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
cd "$root"
if [[ $# -gt 1 || ${1:-} = -* ]]; then
  sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  exit 2
fi
first_adding=$(git log --diff-filter=A --format=%H -- sql/migrations/0020_participants.sql)
wanted=${1:-$(git describe --tags --match 'v*' --abbrev=0 2>/dev/null || printf '%s^' "$first_adding")}
commit=$(git rev-parse --verify --quiet "$wanted^{commit}") || {
  printf "two_builds: error: this clone has no commit '%s'; in a shallow one: git fetch --unshallow\n" "$wanted" >&2
  exit 2
}

older=$root/build/two_builds
rm -rf -- "$older/tree"
mkdir -p "$older/tree"
git archive "$commit" | tar -x -C "$older/tree"
printf 'two_builds: the version before is %s\n' "$(git log -1 --format='%h of %cs, "%s"' "$commit")"
git diff --name-only --diff-filter=M "$commit" -- sql/migrations | while read -r edited; do
  printf 'two_builds: it is given the text that %s has now\n' "$edited"
  cp -- "$edited" "$older/tree/$edited"
done
(cd "$older/tree" && cmake --preset default -B "$older/build")
cmake --build "$older/build" --parallel "$(nproc)" --target rental_service
cmake --preset default
cmake --build --preset default --parallel "$(nproc)" --target service_tests

stack=$root/build/two_builds_stack
trap 'scripts/stack.sh down --purge "$stack"' EXIT
exports=$(scripts/stack.sh up "$stack")
eval "$exports"
export SKALD_TEST_STACK=$stack SKALD_TEST_OLDER_RENTAL_SERVICE=$older/build/tests/rental_service
build/tests/integration/services/service_tests '--source-file=*/versions_test.cpp'
