#!/usr/bin/env bash
# The first five minutes with the console: the order example on a private PostgreSQL and RabbitMQ, a little load, and
# `skald console` on their databases, until Ctrl-C. Leaves nothing running, and no files outside build/.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
# shellcheck source=lib/order_shop.sh
source "$root/scripts/lib/order_shop.sh"
listen=127.0.0.1:8090
folder=

usage() {
  cat <<'USAGE'
usage: scripts/console.sh [--listen HOST:PORT]

Builds and starts the order example and the console (default: 127.0.0.1:8090),
and places two orders a second: some complete, some are rejected and undone.
Ctrl-C ends all of it.
USAGE
}

clean_up() {
  trap '' INT TERM
  set +e
  printf '\nstopping everything\n'
  [[ ! $folder ]] || close_shop "$folder"
  [[ ! $folder ]] || rm -rf -- "$folder"
}

build() {
  "$root/scripts/setup.sh"
  printf 'building in build/ (the first time takes some minutes)\n'
  cmake -S "$root" -B "$root/build" -G Ninja >/dev/null
  cmake --build "$root/build" --target order_service payment_service shipping_service skald_cli
}

# Every fourth order is for what is out of stock, every ninth from someone without money.
keep_ordering() {
  local number=0 customer sku
  while true; do
    number=$((number + 1))
    customer=ada sku=tea
    ((number % 9 != 0)) || customer=nobody
    ((number % 4 != 0)) || sku=cup
    place_order "order-$number" "$customer" "$sku" || true
    sleep 0.5
  done
}

main() {
  case ${1-} in
    '') ;;
    --listen) listen=${2:?--listen needs HOST:PORT} ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
  build
  folder=$(mktemp -d "$root/build/console.XXXXXX")
  chmod 755 "$folder" # the servers may run as another user
  trap clean_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  open_shop "$folder" "$root/build/examples/order_saga/payment_service"
  fill_shop
  start_console "$folder" --listen "$listen"
  printf '\nthe console is at %s, and orders come in; Ctrl-C ends it\n' "$console_address"
  keep_ordering
}

main "$@"
