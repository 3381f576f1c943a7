# shellcheck shell=bash
# The order example by hand: its servers, its three services and a console, in one folder. Sourced by scripts/console.sh and
# the console's browser test, which set `root` first.
# shellcheck disable=SC2154

shop_address=
console_address=

# free_port: one that nothing listens on now.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# start_service FOLDER NAME URL PROGRAM...
start_service() {
  local folder=$1 name=$2 url=$3
  shift 3
  DATABASE_URL=$url "$@" >>"$folder/logs/$name.log" 2>&1 &
  printf '%s\n' $! >"$folder/$name.pid"
}

# stop_service FOLDER NAME
stop_service() {
  [[ -f $1/$2.pid ]] || return 0
  local id
  id=$(<"$1/$2.pid")
  rm -f "$1/$2.pid"
  kill -TERM "$id" 2>/dev/null || true
  wait "$id" 2>/dev/null || true
}

# open_shop FOLDER PAYMENTS: servers and services; PAYMENTS is the program of that service.
open_shop() {
  local folder=$1 programs=$root/build/examples/order_saga name url port
  mkdir -p "$folder/logs"
  eval "$("$root/scripts/stack.sh" up "$folder/stack" 2>"$folder/logs/stack.log")"
  for name in orders payments shipping; do
    url=DATABASE_URL_${name^^}
    printf '%s\n' "${!url}" >"$folder/$name.url"
  done
  port=$(free_port)
  shop_address=http://127.0.0.1:$port
  export SKALD_LOG_LEVEL=warning
  start_service "$folder" orders "$DATABASE_URL_ORDERS" "$programs/order_service" --listen "127.0.0.1:$port"
  start_service "$folder" payments "$DATABASE_URL_PAYMENTS" "$2"
  start_service "$folder" shipping "$DATABASE_URL_SHIPPING" "$programs/shipping_service"
  until curl -sf "$shop_address/readyz" >/dev/null; do
    kill -0 "$(<"$folder/orders.pid")" || { cat "$folder/logs/orders.log" >&2 && return 1; }
    sleep 0.2
  done
}

# Until a service has created its tables.
ask_until_done() {
  local tries
  for ((tries = 0; tries < 300; ++tries)); do
    if psql -q "$1" -c "$2" >/dev/null 2>&1; then return 0; fi
    sleep 0.2
  done
  psql "$1" -c "$2"
}

# fund CUSTOMER
fund() { ask_until_done "$DATABASE_URL_PAYMENTS" "INSERT INTO wallet VALUES ('$1', 1000000000) ON CONFLICT DO NOTHING"; }

fill_shop() {
  fund ada
  ask_until_done "$DATABASE_URL_SHIPPING" "INSERT INTO stock VALUES ('tea', 1000000), ('cup', 0) ON CONFLICT DO NOTHING"
}

# place_order KEY CUSTOMER SKU
place_order() {
  curl -sf -o /dev/null "$shop_address/orders" -H "Idempotency-Key: $1" \
    -d "{\"customer\":\"$2\",\"sku\":\"$3\",\"quantity\":1,\"cents\":1200}"
}

# wait_for_status KEY 'STATUS|STATUS'
wait_for_status() {
  local tries
  for ((tries = 0; tries < 600; ++tries)); do
    if psql -At "$DATABASE_URL_ORDERS" -c "SELECT status FROM skald.saga WHERE key = '$1'" | grep -qxE "$2"; then return 0; fi
    sleep 0.2
  done
  printf 'the saga %s does not become %s\n' "$1" "$2" >&2
  return 1
}

# start_console FOLDER [OPTION...]
start_console() {
  local folder=$1 name
  local -a options=()
  shift
  for name in orders payments shipping; do
    options+=(--service "$name=$folder/$name.url" --operate "$name=$folder/$name.url")
  done
  : >"$folder/logs/console.log"
  "$root/build/tools/skald" console "${options[@]}" "$@" >"$folder/logs/console.log" 2>&1 &
  printf '%s\n' $! >"$folder/console.pid"
  until grep -q 'http://' "$folder/logs/console.log"; do
    kill -0 "$(<"$folder/console.pid")" || { cat "$folder/logs/console.log" >&2 && return 1; }
    sleep 0.1
  done
  console_address=$(grep -o 'http://[^ ]*[0-9]' "$folder/logs/console.log")
}

# close_shop FOLDER
close_shop() {
  local name
  for name in console orders payments shipping; do stop_service "$1" "$name"; done
  "$root/scripts/stack.sh" down --purge "$1/stack" >/dev/null 2>&1 || true
}
