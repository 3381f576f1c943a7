#!/usr/bin/env bash
# How long the console takes for each filter of its list of sagas: measure.sh ADDRESS [REQUESTS]. On what sagas.sql has made.
set -euo pipefail

address=${1:?usage: measure.sh ADDRESS [REQUESTS]}
requests=${2:-40}
filters=(
  '' 'status=stuck' 'status=running' 'status=compensating' 'status=compensated' 'status=completed'
  'definition=place-order' 'definition=refund-order' 'definition=close-books' 'scope=shop-17' 'key=order-0012'
  'key=order-09999999' 'reason=stock' 'reason=needle' 'older=1h' 'older=20d' 'status=completed&scope=shop-17'
  'status=compensated&definition=refund-order&reason=funds' 'definition=nothing'
)

printf '%-58s %8s %8s %8s\n' filter 'median' 'p95' 'slowest'
for filter in "${filters[@]}"; do
  for ((i = 0; i < requests; ++i)); do
    curl -sf -o /dev/null -w '%{time_total}\n' "$address/?$filter"
  done | sort -n | awk -v filter="${filter:-(none)}" '
    { all[NR] = $1 * 1000 }
    END { printf "%-58s %5.0f ms %5.0f ms %5.0f ms\n", filter, all[int((NR + 1) / 2)], all[int(NR * 0.95 + 0.5)], all[NR] }'
done
