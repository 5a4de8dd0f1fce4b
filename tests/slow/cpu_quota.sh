#!/usr/bin/env bash
# Runs the program in control groups with a CPU quota, and checks how many threads it computes with
# and that the default is about as fast as --threads 1 with half a core. Needs the right to make
# groups; otherwise the script says why it is skipped.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly program=build/release/neuronmm

# The folder of this process's group that has the controller "cpu", in version 2 or 1.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  version=2
  parent=/sys/fs/cgroup
  grep -qw cpu $parent/cgroup.subtree_control ||
    { echo "skipped: $parent/cgroup.subtree_control does not have cpu"; exit 0; }
elif [ -d /sys/fs/cgroup/cpu ]; then
  version=1
  parent=/sys/fs/cgroup/cpu
else
  echo "skipped: no control groups with the controller cpu below /sys/fs/cgroup"
  exit 0
fi
readonly version parent outer=$parent/neuronmm_quota_$$
mkdir $outer 2>/dev/null || { echo "skipped: cannot make the group $outer"; exit 0; }
trap 'rmdir $outer/inner 2>/dev/null || true; rmdir $outer' EXIT
[ $version = 1 ] || echo +cpu >$outer/cgroup.subtree_control
mkdir $outer/inner

# set_quota GROUP MICROSECONDS: lets the group compute for so long in each 100,000 us; -1 for ever
set_quota() {
  if [ $version = 2 ]; then
    echo "${2/#-1/max} 100000" >"$1/cpu.max"
  else
    echo "$2" >"$1/cpu.cfs_quota_us"
  fi
}
# inside COMMAND...: runs the command in the inner group
inside() { bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' $outer/inner "$@"; }
threads() {
  inside $program bench models/demo --prompt-tokens 8 --new-tokens 2 --runs 1 --json - "$@" 2>/dev/null |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["provenance"]["machine"]["threads"])'
}
expect() {
  local found
  found=$(threads "${@:2}")
  [ "$found" = "$1" ] || { echo "expected $1 threads, found $found" >&2; exit 1; }
}

cores=$(nproc)
two=$((cores < 2 ? cores : 2))
expect "$cores"
set_quota $outer/inner 50000
expect 1
expect 2 --threads 2
set_quota $outer/inner 150000
expect 1
set_quota $outer/inner 200000
expect $two
# Linux refuses a group of version 1 more than the group above it has, so the inner group loses its
# quota first.
set_quota $outer/inner -1
set_quota $outer 100000
expect 1
set_quota $outer -1

set_quota $outer/inner 50000
speed() {
  inside $program bench models/demo --prompt-tokens 400 --new-tokens 2 --runs 15 --json - "$@" 2>/dev/null |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["prefill_tokens_per_s"])'
}
echo "with half a core, prompt tokens per second: $(speed) by default, $(speed --threads 1) with --threads 1"
