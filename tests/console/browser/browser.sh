#!/usr/bin/env bash
# The console in Debian's Chromium, on the order example with a stuck, a compensated and a waiting saga. Leaves nothing
# running. usage: tests/console/browser/browser.sh [PICTURES]
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../../.." && pwd)
# shellcheck source=../../../scripts/lib/order_shop.sh
source "$root/scripts/lib/order_shop.sh"
pictures=$(realpath -m -- "${1:-$root/build/console-pictures}")
here=$root/tests/console/browser
folder=$(mktemp -d "${TMPDIR:-/tmp}/skald-browser.XXXXXX")
chmod 755 "$folder"

clean_up() {
  local code=$?
  trap '' INT TERM
  ((code == 0)) || tail -n 5 "$folder"/logs/*.log >&2 || true
  close_shop "$folder"
  rm -rf -- "$folder"
  exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

open_shop "$folder" "$root/build/tests/faulty_payment_service"
fill_shop
for customer in stubborn-eve broken-mia '<script>alert(1)</script>'; do fund "$customer"; done
place_order order-1 ada tea
place_order order-2 ada cup
place_order order-3 stubborn-eve cup
place_order order-4 broken-mia tea
place_order order-5 '<script>alert(1)</script>' cup
wait_for_status order-3 stuck
for key in order-1 order-4; do wait_for_status "$key" 'completed|compensated'; done
stop_service "$folder" payments # so that one waits
place_order order-8 ada tea
start_console "$folder" --listen 127.0.0.1:0

modules=$root/build/browser
mkdir -p "$modules"
cp "$here/package.json" "$here/package-lock.json" "$here/console.mjs" "$modules/"
(cd "$modules" && npm ci --ignore-scripts --no-audit --no-fund >"$folder/logs/npm.log" 2>&1)
node "$modules/console.mjs" "$console_address" "$pictures"
