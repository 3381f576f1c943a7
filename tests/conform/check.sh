#!/usr/bin/env bash
# Whether `skald conform` passes what is right in a language, and names each mistake by its rule.
#
#   tests/conform/check.sh LANGUAGE PARTICIPANT MISTAKES
#
# PARTICIPANT is the command of the right program, which must conform with five seeds; MISTAKES that of the one whose last argument is
# the mistake, or MISTAKE=RULE. On servers of its own. SEEDS and MISTAKES, if others are wanted.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../.." && pwd)
language=$1
participant=$2
mistakes=$3
folder=$root/build/languages/conform-$language
rm -rf "$folder" && mkdir -p "$folder"
trap '"$root/scripts/stack.sh" down --purge "$folder/stack" >"$folder/stack-down.log" 2>&1' EXIT
exports=$("$root/scripts/stack.sh" up "$folder/stack" 2>"$folder/stack-up.log")
eval "$exports"
export DATABASE_URL=$DATABASE_URL_PAYMENTS

# run NAME COMMAND [OPTION...]: the rule of the first violation is in $rule; empty: it conforms.
run() {
  local name=$1 command=$2 code=0
  shift 2
  "$root/build/tools/skald" conform --service payments --command "$command" --certificate "$folder/$name.json" --log "$folder/$name.log" \
    "$@" >"$folder/$name.txt" 2>&1 || code=$?
  if ((code != 0 && code != 3)); then
    cat "$folder/$name.txt" >&2
    exit 1
  fi
  rule=$(python3 -c 'import json, sys; print(*[v["rule"] for v in json.load(open(sys.argv[1]))["violations"]][:1])' "$folder/$name.json")
  if [[ ($code == 0 && $rule) || ($code == 3 && ! $rule) ]]; then
    echo "conform: $language, $name: exit code $code, and the certificate says otherwise" >&2
    exit 1
  fi
}

# refused NAME CODE TEXT COMMAND: it says nothing of the participant, but TEXT.
refused() {
  local code=0
  "$root/build/tools/skald" conform --service payments --command "$4" --log "$folder/$1.log" --seed 1 --sagas 20 --patience 6s \
    >"$folder/$1.txt" 2>&1 || code=$?
  if [[ $code != "$2" ]] || ! grep -q "$3" "$folder/$1.txt"; then
    echo "conform: $language, $1: exit code $code, and not $2: $3" >&2
    cat "$folder/$1.txt" >&2
    exit 1
  fi
  echo "conform: $language, $1: refused"
}

# expect NAME RULE: what run() has said.
expect() {
  if [[ $rule != "$2" ]]; then
    echo "conform: $language, $1: ${rule:-it conforms}, and not ${2:-that it conforms}; see $folder/$1.txt" >&2
    cat "$folder/$1.txt" >&2
    exit 1
  fi
  echo "conform: $language, $1: ${rule:-it conforms}"
}

for seed in ${SEEDS:-1 2 3 4 5}; do
  run "right-$seed" "$participant" --seed "$seed" --patience 60s # on a machine that has much else to do
  expect "right-$seed" ''
done
# From here on, as a service is told them in production.
for variable in DATABASE_URL AMQP_URL; do
  printf '%s' "${!variable}" >"$folder/$variable"
  export "${variable}_FILE=$folder/$variable"
  unset "$variable"
done
run none "$mistakes none" --seed 1 --patience 60s
expect none ''
known='ack_before_commit effect_outside ignores_verdict effect_after_done reject_without_rollback publishes_directly loses_members snoozes_by_ack'
# What the loop does is the same in each language, so that one is enough for what came later.
[[ $language != python ]] || known+=' ack_without_commit acks_deadlock=ack_without_commit remembers_before_commit=ack_without_commit ack_at_sigterm
  wrong_amount event_twice hides_fault commit_not_durable ack_before_fail=ack_before_commit publishes_before_commit=publishes_directly
  publishes_after_commit=event_lost effect_lost effect_twice does_not_wait leaves_parked=not_parked never_acks=never_acked
  dies_of_poison=ends_by_itself gives_up ignores_sigterm'
for mistake in ${MISTAKES:-$known}; do
  run "${mistake%=*}" "$mistakes ${mistake%=*}" --seed 1 --sagas 20 --patience 6s
  expect "${mistake%=*}" "${mistake#*=}"
done
if [[ $language == python ]]; then
  refused relay 1 'the relay that was started' "kill \$(pgrep -P \$PPID -f 'skald relay\$'); $mistakes none"
  # Last: the program lives on until the broker has gone.
  refused setsid 2 'end that yourself, begin the command with .exec.' "setsid --wait ${mistakes#exec } none"
fi
