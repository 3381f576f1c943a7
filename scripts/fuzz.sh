#!/usr/bin/env bash
# Builds the fuzz targets of tests/fuzz and runs each for a while, from the corpus that is kept there.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
readonly root
readonly build=$root/build-fuzz
readonly targets=(key request answer message properties)

usage() {
  cat <<'USAGE'
usage: scripts/fuzz.sh [options]

Feeds made-up bytes to what reads the bytes of strangers, with AddressSanitizer and UBSan, and checks what must hold of
every input: tests/fuzz says what. What was found worth keeping stays in build-fuzz/corpus, so that the next run goes on
from there.

  --minutes N     how long each target runs (default 1; 0.25 is fine)
  --target NAME   only that one: key, request, answer, message or properties
  --help          this text

Exit status: 0 if all holds, 1 if an input was found for which it does not (build-fuzz/found has it), 2 for wrong options.
USAGE
}

fail() {
  printf 'fuzz: error: %s\n' "$*" >&2
  exit 2
}

minutes=1
chosen=("${targets[@]}")
while (($# > 0)); do
  flag=$1 value=${2-}
  [[ $flag == --*=* ]] && value=${flag#*=} flag=${flag%%=*} && set -- "$flag" "$value" "${@:2}"
  case $flag in
    -h | --help) usage && exit 0 ;;
    --minutes | --target) [[ $value ]] || fail "$flag needs a value" ;;
    *) fail "unknown option '$flag' (--help lists the options)" ;;
  esac
  case $flag in
    --minutes)
      [[ $value =~ ^[0-9]+(\.[0-9]+)?$ ]] || fail "--minutes takes a number such as 5 or 0.5, not '$value'"
      minutes=$value
      ;;
    --target)
      [[ " ${targets[*]} " == *" $value "* ]] || fail "there is no target '$value': ${targets[*]}"
      chosen=("$value")
      ;;
  esac
  shift 2
done
# 0 seconds means no end to libFuzzer.
seconds=$(awk -v minutes="$minutes" 'BEGIN { s = int(minutes * 60); print s < 1 ? 1 : s }')

cd "$root"
scripts/setup.sh --dev
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --parallel "$(nproc)"

mkdir -p "$build/found"
# What each says is kept together: as many run at once as there are cores.
fuzz_one() {
  local name=$1 code=0 said
  local kept=$build/corpus/$name dictionary=$root/tests/fuzz/$name.dict
  local -a options=(-max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0)
  mkdir -p "$kept"
  [[ ! -f $dictionary ]] || options+=(-dict="$dictionary")
  said=$("$build/tests/fuzz/fuzz_$name" "${options[@]}" -artifact_prefix="$build/found/$name-" "$kept" \
    "$root/tests/fuzz/corpus/$name" 2>&1) || code=$?
  printf '\nfuzz: %s, %s s\n%s\n' "$name" "$seconds" "$said"
  ((code == 0)) || printf 'fuzz: %s: an input for which it does not hold. Again: %s FILE, with the file named above\n' "$name" \
    "$build/tests/fuzz/fuzz_$name" >&2
  return "$code"
}
export -f fuzz_one
export build root seconds
printf '%s\0' "${chosen[@]}" | xargs -0 --max-procs "$(nproc)" -I NAME bash -c 'fuzz_one NAME' || exit 1
