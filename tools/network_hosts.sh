#!/usr/bin/env bash
# Hosts of a network on one machine: network namespaces, each with a name of its own, a veth pair and a bridge that is their switch.
# What is sent between them is sent by TCP at the given rate. Needs root and iproute2. The cores and the memory are those of the one
# machine: Open MPI takes the hosts for different machines and shares no memory between them.
#
#   network_hosts.sh up COUNT RATE [DELAY]    nmm-0 ... nmm-(COUNT-1), rate as tc writes it (1gbit, 10gbit), added delay one way (0.05ms)
#   network_hosts.sh on HOST COMMAND...       runs a command there
#   network_hosts.sh agent HOST COMMAND       the same with a shell's command line, as ssh does: for mpirun's plm_rsh_agent
#   network_hosts.sh mpirun COUNT ARGUMENT... mpirun on nmm-0, one process on each of COUNT hosts
#   network_hosts.sh bytes HOST               what the interface has sent so far, headers of Ethernet, IP and TCP included
#   network_hosts.sh rate HOST RATE           another rate of what the host sends
#   network_hosts.sh has-delay                whether a delay can be added: by the kernel (netem), or by link_delay.cc with a compiler and TAP devices
#   network_hosts.sh down
set -euo pipefail
readonly prefix=nmm bridge=nmm-switch network=10.213.77 state=/run/nmm-hosts
# tbf sends this much at once: two of the longest packets that Linux gives a device, which segments them.
readonly burst=128kb

fail() { echo "network_hosts.sh: $*" >&2; exit 1; }

hosts() { ip netns list | grep -oE "^$prefix-[0-9]+" || true; }
on() { local host=$1; shift; ip netns exec "$host" unshare --uts bash -c 'hostname "$0" && exec "$@"' "$host" "$@"; }

# The rate is that of the host's card and of its port at the switch.
shape() {  # HOST RATE
  ip netns exec "$1" tc qdisc replace dev eth0 root handle 1: tbf rate "$2" burst $burst latency 50ms
  tc qdisc replace dev "$1" root tbf rate "$2" burst $burst latency 50ms
}

has_delay() { has_netem || { [ -w /dev/net/tun ] && command -v c++ >/dev/null; }; }

has_netem() {
  ip link add $prefix-probe type dummy 2>/dev/null || ip link add $prefix-probe type veth peer name $prefix-prob2
  local can=0
  tc qdisc add dev $prefix-probe root netem delay 1ms 2>/dev/null || can=1
  ip link del $prefix-probe
  return $can
}

# What a host sends arrives so much later. Without netem two devices and a program between them are the cable.
connect() {  # HOST DELAY
  local microseconds
  if [ -z "$2" ] || has_netem; then
    ip link add "$1" type veth peer name eth0 netns "$1"
    return
  fi
  case "$2" in
    *us) microseconds=${2%us} ;;
    *ms) microseconds=$(awk "BEGIN {print int(1000 * ${2%ms})}") ;;
    *) fail "a delay like 50us or 0.05ms, not $2" ;;
  esac
  [ -x "$state/link_delay" ] || c++ -std=c++20 -O2 -o "$state/link_delay" "$(dirname "$(readlink -f "$0")")/link_delay.cc"
  mkfifo "$state/$1"
  "$state/link_delay" "$1" "$microseconds" >"$state/$1" 2>"$state/$1.errors" </dev/null &  # it holds no pipe of the caller's
  read -r _ <"$state/$1" || fail "$(cat "$state/$1.errors")"
}

delay_by_kernel() {  # HOST DELAY
  [ -n "$2" ] && has_netem || return 0
  ip netns exec "$1" tc qdisc replace dev eth0 parent 1:1 netem delay "$2" limit 100000
}

down() {
  local host
  pkill -f "^$state/link_delay " || true
  rm -rf "$state"
  for host in $(hosts); do
    ip link del "$host" 2>/dev/null || true  # at once; a namespace in which something still runs stays until that has ended
    ip netns del "$host"
    rm -rf "/etc/netns/$host"
  done
  ip link del $bridge 2>/dev/null || true
}

up() {  # COUNT RATE [DELAY]
  local count=$1 rate=$2 delay=${3:-} i host
  [ -z "$delay" ] || has_delay || fail "a delay of $delay needs a kernel with netem, or TAP devices and a compiler (g++)"
  down
  mkdir -p "$state"
  ip link add $bridge type bridge
  ip link set $bridge up
  for ((i = 0; i < count; i++)); do
    host=$prefix-$i
    mkdir -p "/etc/netns/$host"  # `ip netns exec` shows its files as those of /etc
    { echo "127.0.0.1 localhost"; for ((j = 0; j < count; j++)); do echo "$network.$((j + 1)) $prefix-$j"; done; } >"/etc/netns/$host/hosts"
    ip netns add "$host"
    connect "$host" "$delay"
    ip link set "$host" master $bridge up
    ip -n "$host" link set lo up
    ip -n "$host" link set eth0 up
    ip -n "$host" address add "$network.$((i + 1))/24" dev eth0
    shape "$host" "$rate"
    delay_by_kernel "$host" "$delay"
  done
}

# Nothing but TCP over eth0: what Open MPI uses between hosts, and the launcher's own connections.
start() {  # COUNT ARGUMENT...
  local count=$1 names
  shift
  names=$(hosts | sort -t- -k2n | head -n "$count" | sed 's/$/:1/' | paste -sd,)
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  on $prefix-0 mpirun --mca plm_rsh_agent "$(readlink -f "$0") agent" --mca btl self,vader,tcp --mca pml ob1 --mca btl_tcp_if_include eth0 \
    --mca oob_tcp_if_include eth0 --bind-to none --host "$names" "$@"
}

case "${1:-}" in
  up) up "${@:2}" ;;
  down) down ;;
  on) on "${@:2}" ;;
  agent) on "$2" bash -c "${*:3}" ;;
  mpirun) start "${@:2}" ;;
  bytes) ip netns exec "$2" cat /sys/class/net/eth0/statistics/tx_bytes ;;
  rate) shape "$2" "$3" ;;
  has-delay) has_delay ;;
  *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
