#!/usr/bin/env bash
# Commands on 2 and 4 hosts of a network: namespaces with a name of their own and TCP between them (tools/network_hosts.sh), at 1 and
# 10 Gbit/s, without and with 0.05 and 1 ms of added delay. The same text, perplexity and compressed folder as of one
# process; the bytes on the wire are those of the formula; a process that is killed or hangs and a link that is lost end all with a
# message, a link that stalls costs time alone; a model larger than one process's limit of memory runs on four.
#   tests/slow/parallel_namespaces.sh [MODEL_DIR]    also: the text of this model (SmolLM2-135M: 256 tokens)
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
