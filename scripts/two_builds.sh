#!/usr/bin/env bash
# Sagas over processes of two builds of Skald at once, on the same databases: this checkout's, and that of an older commit.
#
#   scripts/two_builds.sh COMMIT
#
# COMMIT is the version before: its schema must be a beginning of this one's (before 0.1: a commit since which no migration
# that it has was edited). Both are built, and the tests of tests/integration/services/versions_test.cpp run with two processes
# of each service, one of either build, while these are replaced and killed.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
cd "$root"
if [[ $# -ne 1 || $1 = -* ]]; then
  sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  exit 2
fi
commit=$(git rev-parse --verify --quiet "$1^{commit}") || {
  printf "two_builds: error: this clone has no commit '%s'; in a shallow one, git fetch it first\n" "$1" >&2
  exit 2
}
edited=$(git diff --name-only --diff-filter=a "$commit" -- sql/migrations)
if [[ $edited ]]; then
  printf 'two_builds: error: edited since %s, so its processes refuse the schema: %s\n' "$1" "$edited" >&2
  exit 2
fi

older=$root/build/two_builds
rm -rf -- "$older/tree"
mkdir -p "$older/tree"
git archive "$commit" | tar -x -C "$older/tree"
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
