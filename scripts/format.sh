#!/usr/bin/env bash
# Formats all C++ of the checkout as .clang-format says.
#
#   scripts/format.sh          writes the files
#   scripts/format.sh --check  changes nothing, names each line that would change, and fails if there is one
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
cd "$root"
# shellcheck source=lib/clang_tools.sh
source "$root/scripts/lib/clang_tools.sh"

case ${1-} in
  '') how=(-i) ;;
  --check) how=(--dry-run -Werror) ;;
  -h | --help) sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
  *) printf "format: error: unknown argument '%s' (--help says how it is called)\n" "$1" >&2 && exit 2 ;;
esac

format=$(clang_tool clang-format)
if ! git ls-files -z '*.cpp' '*.hpp' | xargs -0 --max-procs "$(nproc)" -n 50 "$format" "${how[@]}"; then
  echo 'format: these files are not as .clang-format says. Run: scripts/format.sh' >&2
  exit 1
fi
