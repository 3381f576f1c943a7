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
wait_for_status order-3 stuck # the parked delivery 1
for number in 6 7; do
  place_order "order-$number" stubborn-eve cup
  wait_for_status "order-$number" stuck # 2 and 3
done
for key in order-1 order-4; do wait_for_status "$key" 'completed|compensated'; done
stop_service "$folder" payments # so that one waits
place_order order-8 ada tea
start_console "$folder" --listen 127.0.0.1:0

# expect WANTED GOT WHAT
expect() { [[ $1 == "$2" ]] || { printf 'FAILED %s: %s, and not %s\n' "$3" "$2" "$1" >&2 && exit 1; }; }
status_of() { curl -s -o /dev/null -w '%{http_code}' "$@"; }

code=0
"$root/build/tools/skald" console --service "orders=$folder/orders.url" --listen 0.0.0.0:0 >"$folder/logs/refused.log" 2>&1 || code=$?
expect 2 "$code" 'off loopback without a token'
expect 421 "$(status_of -H 'Host: evil.example' "$console_address/")" 'another name for this machine'
form_key=$(curl -s "$console_address/act?verb=pause&saga=orders%0A%0Aorder-8" | sed -n 's/.*name="form_key" value="\([0-9a-f]*\)".*/\1/p')
expect 403 "$(status_of -d "" "$console_address/act?form_key=$form_key&verb=pause&saga=orders%0A%0Aorder-8&reason=x&confirm=order-8")" 'a form in a link'
expect 413 "$(head -c 300000 /dev/zero | status_of --data-binary @- "$console_address/act")" 'a body that is too large'

modules=$root/build/browser
mkdir -p "$modules"
cp "$here/package.json" "$here/package-lock.json" "$here/console.mjs" "$modules/"
(cd "$modules" && npm ci --ignore-scripts --no-audit --no-fund >"$folder/logs/npm.log" 2>&1)
node "$modules/console.mjs" "$console_address" "$pictures"
