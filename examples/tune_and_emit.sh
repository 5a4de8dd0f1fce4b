#!/usr/bin/env bash
# Makes a kernel for the owner of a Trainium from a shape. It finds the best tiling by the timing
# model and simulates the kernel on a NeuronCore. Then it writes the NKI source with a driver that
# checks and times the kernel.
#
#   examples/tune_and_emit.sh [KERNEL SHAPE [OUT.py]]
#
# `neuronmm kernels` lists the kernels and their shapes.
set -euo pipefail
# shellcheck source=examples/setup.sh
. "$(dirname "$0")/setup.sh"
[ $# -ne 1 ] || usage
kernel=${1:-xuv}
shape=${2:-512,2048,1280,8192}  # the up projection of Llama-3.2-1B at ratio 0.2, for 512 tokens
out=${3:-$work/$kernel.py}

"$neuronmm" tune "$kernel" --shape "$shape" --top 3
"$neuronmm" simulate "$kernel" --shape "$shape" --tiling auto
"$neuronmm" emit "$kernel" --shape "$shape" --tiling auto -o "$out" --driver torch --force
