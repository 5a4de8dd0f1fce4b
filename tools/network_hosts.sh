#!/usr/bin/env bash
# Makes hosts of a network on one machine. Each host is a network namespace with a name of its own. A
# veth pair connects it to a bridge, which is the switch of the network. The hosts exchange data by
# TCP at the given rate.
#
# The script needs root and iproute2. For a delay it also needs netem in the kernel, or a C++
# compiler. All hosts share the cores and the memory of the machine, but Open MPI takes them for
# different machines and uses no shared memory between them.
#
#   network_hosts.sh up COUNT RATE [DELAY]     makes the hosts nmm-0 ... nmm-(COUNT-1); RATE and the
#                                              added one-way DELAY are written as for tc (10gbit,
#                                              0.05ms)
#   network_hosts.sh on HOST COMMAND...        runs a command on a host
#   network_hosts.sh agent HOST COMMAND        runs a shell command line on a host like ssh, for
#                                              mpirun's plm_rsh_agent
#   network_hosts.sh mpirun COUNT ARGUMENT...  runs mpirun on nmm-0 with one process on each of COUNT
#                                              hosts
#   network_hosts.sh bytes HOST                prints how many bytes the host has sent so far, with
#                                              the headers of Ethernet, IP and TCP
#   network_hosts.sh rate HOST RATE            changes the rate of what the host sends
#   network_hosts.sh down                      deletes all hosts
set -euo pipefail
readonly prefix=nmm bridge=nmm-switch network=10.213.77
# tbf sends this much at once: two of the longest packets that Linux passes to a device that
# segments them.
readonly burst=128kb
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
readonly source=$root/tools/link_delay.cc program=$root/build/link_delay

fail() { echo "network_hosts.sh: $*" >&2; exit 1; }

hosts() { ip netns list | grep -oE "^$prefix-[0-9]+" || true; }
# Replaces this process by the command, so that a signal reaches the command.
on() { local host=$1; shift; exec ip netns exec "$host" unshare --uts bash -c 'hostname "$0" && exec "$@"' "$host" "$@"; }

# Limits the rate of the host's network card and of its port at the switch.
shape() {  # arguments: HOST RATE
  ip netns exec "$1" tc qdisc replace dev eth0 root handle 1: tbf rate "$2" burst $burst latency 50ms
  tc qdisc replace dev "$1" root tbf rate "$2" burst $burst latency 50ms
}

# Delays what the host sends after its card: by netem, or by link_delay.cc if the kernel has no
# netem.
delay() {  # arguments: HOST DELAY
  ip netns exec "$1" tc qdisc add dev eth0 parent 1:1 netem delay "$2" limit 100000 2>/dev/null || delay_by_program "$@"
}

# Redirects what comes from the host to a device that returns it to the switch later. Packets to the
# host use only the host's own cable: the switch is told which port leads to the host, and that
# nothing is flooded into the device.
delay_by_program() {  # arguments: HOST DELAY
  local late=$1-late delay_us mac
  delay_us=$(microseconds "$2")
  [ "$program" -nt "$source" ] || { mkdir -p "${program%/*}" && c++ -std=c++20 -O2 "$source" -o "$program"; }
  "$program" "$late" "$delay_us"
  ip link set "$late" master $bridge up
  bridge link set dev "$late" learning off flood off mcast_flood off bcast_flood off
  mac=$(ip netns exec "$1" cat /sys/class/net/eth0/address)
  bridge fdb replace "$mac" dev "$1" master static
  tc qdisc add dev "$1" ingress
  tc filter add dev "$1" parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev "$late"
}

# Converts a time from the notation of tc.
microseconds() {  # arguments: TIME
  [[ $1 =~ ^([0-9.]+)(us|ms|s)$ ]] || fail "a delay is a number with us, ms or s, found $1"
  awk -v number="${BASH_REMATCH[1]}" -v unit="${BASH_REMATCH[2]}" 'BEGIN { printf "%.0f", number * (unit == "us" ? 1 : unit == "ms" ? 1e3 : 1e6) }'
}

# Deletes all hosts and the switch.
down() {
  local host
  for host in $(hosts); do
    # A namespace exists until all processes in it have ended. Its devices are deleted now, which
    # also ends the program behind the second one.
    ip link del "$host" 2>/dev/null || true
    ip link del "$host-late" 2>/dev/null || true
    ip netns del "$host"
    rm -rf "/etc/netns/$host"
  done
  ip link del $bridge 2>/dev/null || true
}

# Makes the hosts and the switch.
up() {  # arguments: COUNT RATE [DELAY]
  local count=$1 rate=$2 delay=${3:-} i host
  down
  ip link add $bridge type bridge
  ip link set $bridge up
  for ((i = 0; i < count; i++)); do
    host=$prefix-$i
    # `ip netns exec` shows the files of this folder as those of /etc.
    mkdir -p "/etc/netns/$host"
    { echo "127.0.0.1 localhost"; for ((j = 0; j < count; j++)); do echo "$network.$((j + 1)) $prefix-$j"; done; } >"/etc/netns/$host/hosts"
    ip netns add "$host"
    ip link add "$host" type veth peer name eth0 netns "$host"
    ip link set "$host" master $bridge up
    ip -n "$host" link set lo up
    ip -n "$host" link set eth0 up
    ip -n "$host" address add "$network.$((i + 1))/24" dev eth0
    shape "$host" "$rate"
    [ -z "$delay" ] || delay "$host" "$delay"
  done
}

# Allows only TCP over eth0, for Open MPI's traffic between hosts and for the launcher's own
# connections.
start() {  # arguments: COUNT ARGUMENT...
  local count=$1 names
  shift
  names=$(hosts | sort -t- -k2n | head -n "$count" | sed 's/$/:1/' | paste -sd,)
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  on $prefix-0 mpirun --mca plm_rsh_agent "$(readlink -f "$0") agent" --mca btl self,vader,tcp --mca pml ob1 --mca btl_tcp_if_include eth0 \
    --mca oob_tcp_if_include eth0 --bind-to none --host "$names" "$@"
}

[ "$(id -u)" -eq 0 ] || [ $# -eq 0 ] || fail "network namespaces need root; run it as root or with sudo"
command -v ip >/dev/null || fail "ip: no such program; install Debian's iproute2"
case "${1:-}" in
  up) up "${@:2}" ;;
  down) down ;;
  on) on "${@:2}" ;;
  agent) on "$2" bash -c "${*:3}" ;;
  mpirun) start "${@:2}" ;;
  bytes) ip netns exec "$2" cat /sys/class/net/eth0/statistics/tx_bytes ;;
  rate) shape "$2" "$3" ;;
  *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
