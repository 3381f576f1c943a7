#!/usr/bin/env bash
# Whether the metrics are true: a real Prometheus scrapes the order example, and its counters must equal what SQL says
# (tests/observability/check.py). And whether the alert rules do what their tests say. Leaves nothing running.
set -euo pipefail
cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.."

case ${1-} in
  '') ;;
  -h | --help) sed -n '2,3s/^# \{0,1\}//p' "$0" && exit 0 ;;
  *) printf "observability: error: unknown argument '%s' (--help says how it is called)\n" "$1" >&2 && exit 2 ;;
esac

scripts/setup.sh --observability
(cd docker/observability && promtool check rules alerts.yml && promtool test rules alerts_test.yml)

[[ -f build/build.ninja ]] || cmake --preset default >/dev/null
cmake --build build --parallel "$(nproc)" --target order_service payment_service shipping_service skald_cli

folder=$(mktemp -d build/observability.XXXXXX)
chmod 755 "$folder" # the servers may run as another user
clean_up() {
  local code=$?
  trap '' INT TERM HUP
  scripts/stack.sh down --purge "$folder/stack" >/dev/null 2>&1 || true
  if ((code == 0)); then rm -rf -- "$folder"; else printf 'observability: the logs are in %s\n' "$folder"; fi
  exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# What the caller has set for other servers is not meant for these.
unset "${!PG@}" "${!SKALD_@}" DATABASE_URL DATABASE_URL_FILE AMQP_URL AMQP_URL_FILE
exports=$(scripts/stack.sh up "$folder/stack")
eval "$exports"
python3 tests/observability/check.py "$PWD" "$PWD/$folder"
