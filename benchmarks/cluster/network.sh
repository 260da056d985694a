#!/usr/bin/env bash
# A Ray cluster on this machine whose nodes are in network namespaces, with links of a given rate.
#   network.sh up NODES RATE      e.g. up 4 200mbit; the head is one more, without a site
#   network.sh links NODES RATE   the network alone, without Ray: for other systems
#   network.sh run COMMAND...     in the namespace of the head; RAY_ADDRESS is set
#   network.sh at NODE COMMAND... in the namespace of a node, which is its host name, too
#   network.sh bytes              that each node has sent, the head first
#   network.sh kill NODE          1 to NODES: its processes are gone at once
#   network.sh cut NODE           its link is gone, its processes are not
#   network.sh down               everything is removed
# PYTHON: the interpreter where ray and tensorel are installed; MEMORY: bytes of an object store.
# Needs root, ip and tc (Debian: apt install iproute2).
set -euo pipefail

python=${PYTHON:-python3}
memory=${MEMORY:-200000000}
prefix=trsite
bridge=trbridge
subnet=10.77.0
folder=/tmp/tensorel-network  # sockets of Ray need a short path
port=6399

namespaces() { ip netns list | awk -v p="^${prefix}[0-9]+$" '$1 ~ p {print $1}' | sort -V; }

link() {  # namespace number, rate
  local name=$prefix$1 rate=$2
  ip netns add "$name"
  ip link add "$name" type veth peer name eth0 netns "$name"
  ip link set "$name" master "$bridge" up
  ip -n "$name" address add "$subnet.$(($1 + 1))/24" dev eth0
  ip -n "$name" link set eth0 up
  ip -n "$name" link set lo up
  tc -n "$name" qdisc add dev eth0 root tbf rate "$rate" burst 256kb latency 100ms  # what it sends
  tc qdisc add dev "$name" root tbf rate "$rate" burst 256kb latency 100ms  # what it receives
}

start() {  # namespace number, options of ray start
  local number=$1
  shift
  ip netns exec "$prefix$number" env RAY_TMPDIR="$folder" RAY_USAGE_STATS_ENABLED=0 \
    RAY_DISABLE_IMPORT_WARNING=1 RAY_worker_niceness=0 "$python" -m ray.scripts.scripts start "$@" \
    --node-ip-address="$subnet.$((number + 1))" --object-store-memory="$memory" \
    --disable-usage-stats >>"$folder/start.log" 2>&1 ||
    { cat "$folder/start.log" >&2; down; exit 1; }
}

links() {
  local nodes=$1 rate=$2
  [ -z "$(namespaces)" ] || { echo "there is a network already: network.sh down" >&2; exit 1; }
  mkdir -p "$folder/ray"
  ip link add "$bridge" type bridge
  ip link set "$bridge" up
  for number in $(seq 0 "$nodes"); do link "$number" "$rate"; done
}

up() {
  local nodes=$1 rate=$2 settings
  links "$nodes" "$rate"
  settings=$("$python" -c 'import json
from tensorel.engines.sites.ray_nodes import SETTINGS
print(json.dumps(SETTINGS))')
  start 0 --head --port="$port" --num-cpus=0 --include-dashboard=false \
    --temp-dir="$folder/ray" --system-config="$settings"
  for number in $(seq 1 "$nodes"); do
    start "$number" --address="$subnet.1:$port" --num-cpus=1
  done
  echo "$nodes nodes with links of $rate: network.sh run COMMAND, address $subnet.1:$port"
}

stop() {  # namespace
  local found
  found=$(ip netns pids "$1" 2>/dev/null || true)
  [ -z "$found" ] || kill -9 $found 2>/dev/null || true
}

down() {
  local name
  for name in $(namespaces); do stop "$name"; done
  for name in $(namespaces); do
    ip netns delete "$name"
    ip link delete "$name" 2>/dev/null || true
  done
  ip link delete "$bridge" 2>/dev/null || true
  rm -rf "$folder"
}

case "${1:-}" in
  up) up "${2:?nodes}" "${3:?rate, as 200mbit}" ;;
  links) links "${2:?nodes}" "${3:?rate, as 200mbit}" ;;
  run) shift
    ip netns exec "${prefix}0" env RAY_ADDRESS="$subnet.1:$port" RAY_TMPDIR="$folder" "$@" ;;
  at) name=$prefix${2:?node}
    shift 2
    exec ip netns exec "$name" unshare --uts sh -c 'hostname "$0"; exec "$@"' "$name" "$@" ;;
  bytes) for name in $(namespaces); do
      echo "$name $(ip netns exec "$name" cat /sys/class/net/eth0/statistics/tx_bytes)"
    done ;;
  kill) stop "$prefix${2:?node}" ;;
  cut) ip link set "$prefix${2:?node}" down ;;
  down) down ;;
  *) sed -n '2,12p' "$0" >&2; exit 2 ;;
esac
