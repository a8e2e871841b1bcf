#!/usr/bin/env bash
# Five hospitals on this machine, from nothing: five processes over mutual TLS on loopback, each learning from its own
# growing CSV file. Nobody sends a record to anybody.
#
#   examples/hospitals/start.sh [DIRECTORY]     (variables as in prepare.sh)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=${1:-runs/hospitals}
tacit=${TACIT:-tacit}
HOSTS=loopback "$here/prepare.sh" "$work"

pids=()
stop() { kill "${pids[@]}" 2> /dev/null || true; wait; }
trap stop EXIT
for home in "$work"/hospital-*/; do
  "$tacit" peer run "${home}peer.toml" 2> "${home}log.jsonl" &
  pids+=($!)
done
echo "five peers run; their logs are $work/*/log.jsonl"
failed=0
for pid in "${pids[@]}"; do
  wait "$pid" || { echo "a peer ended with exit code $?: see the logs" >&2; failed=1; }
done
trap - EXIT
for home in "$work"/hospital-*/; do
  echo "$(basename "$home"):"
  "$tacit" ledger show "${home}state/store.db" | sed -n 1,8p
done
exit "$failed"
