#!/usr/bin/env bash
# clang-tidy over the framework, the tools, the examples and bench/, with the checks of .clang-tidy; every finding is an
# error. The files of each target are checked together, because most of the time goes into the headers that they share.
#
#   scripts/tidy.sh [PART...]   only what has one of the PARTs in its path, such as http or tools/
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
readonly root
readonly build=$root/build-tidy
cd "$root"
# shellcheck source=lib/clang_tools.sh
source "$root/scripts/lib/clang_tools.sh"

case ${1-} in
  -h | --help) sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
  -*) printf "tidy: error: unknown option '%s' (--help says how it is called)\n" "$1" >&2 && exit 2 ;;
esac

tidy=$(clang_tool clang-tidy)
cmake --preset tidy >/dev/null
# The headers made from SQL. Requested as targets, some would first build the libraries that their program links.
ninja -C "$build" -t targets rule CUSTOM_COMMAND | grep '^[^/].*generated/.*\.hpp$' |
  xargs ninja -C "$build" -t commands -s | bash -euo pipefail >/dev/null

# One line for each file that the compiler is given; CMake's combined file of a target is named after the target.
mapfile -t files < <(sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' "$build/compile_commands.json" | sort -u)
if (($# > 0)); then
  mapfile -t files < <(printf '%s\n' "${files[@]#"$root"/}" | grep -F "$(printf '%s\n' "$@")" | sed "s|^|$root/|")
fi
((${#files[@]} > 0)) || { printf 'tidy: error: no file has %s in its path\n' "$*" >&2 && exit 2; }

printf 'tidy: %d files, most of them all of a target\n' "${#files[@]}"
# A combined file of a target includes .cpp files, and is meant to.
look_at() {
  local began=$SECONDS code=0 said
  said=$("$tidy" --quiet --warnings-as-errors='*' --checks=-bugprone-suspicious-include -p "$build" "$1" 2>/dev/null) || code=$?
  printf '%4d s  %s\n%s' $((SECONDS - began)) "${1#"$root"/}" "${said:+$said$'\n'}"
  return "$code"
}
export -f look_at
export tidy build root
if ! printf '%s\0' "${files[@]}" | xargs -0 --max-procs "$(nproc)" -I FILE bash -c 'look_at FILE'; then
  echo 'tidy: mend what is named above; scripts/tidy.sh PART looks at a part again' >&2
  exit 1
fi
