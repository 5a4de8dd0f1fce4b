#!/usr/bin/env bash
# Tests commands that run on 2 and 4 hosts of a network (tools/network_hosts.sh). The hosts are
# network namespaces with names of their own and TCP between them. Links have 1 and 10 Gbit/s, with
# no added delay, 0.05 ms and 1 ms. The following must hold:
#
# - Text, perplexity and compressed folders are the same as with one process.
# - The bytes on the wire are those of the formula.
# - If a process is killed or hangs, or if a link is lost, all processes end with a message.
# - If a link stalls, the run only takes longer.
# - A model that exceeds the memory limit of one process runs on four.
#
# Usage: tests/slow/parallel_namespaces.sh [MODEL_DIR]
#
# With MODEL_DIR, 256 tokens of text of this model (such as SmolLM2-135M) are compared, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
skip() { echo "skipped: $*"; exit 0; }
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
for program in ip tc bridge unshare; do command -v $program >/dev/null || skip "no $program (Debian: iproute2, util-linux)"; done
mpirun --version 2>/dev/null | grep -q "Open MPI" || skip "no Open MPI, whose launcher starts processes in namespaces here"
export NEURONMM=${NEURONMM:-$PWD/build/release/neuronmm}
ldd "$NEURONMM" | grep -q libmpi || skip "$NEURONMM was built without MPI"
trap 'tools/network_hosts.sh down' EXIT
tools/network_hosts.sh up 1 1gbit 1ms 2>/dev/null || skip "this kernel or container allows no namespaces, bridges, tbf, or delays"
python3 tests/slow/parallel_namespaces/check.py "$@"
