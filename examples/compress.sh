#!/usr/bin/env bash
# Compresses the MLPs of a model by a fifth, shows what was kept, and generates a text with the
# result.
#
#   examples/compress.sh [MODEL_DIR [TEXT [OUT]]]
#
# MODEL_DIR is a Hugging Face folder, and TEXT a text like those that the model will see.
set -euo pipefail
root=$(dirname "$0")/..
neuronmm=${NEURONMM:-$root/build/neuronmm}
work=${WORK:-$root/build/examples}
model=${1:-$root/models/demo}
text=${2:-$root/models/demo/calibration.txt}
out=${3:-$work/small}

mkdir -p "$work"
"$neuronmm" compress "$model" -o "$out" --ratio 0.2 --calibration "$text" --force
"$neuronmm" inspect "$out"
"$neuronmm" generate "$out" --prompt "Once upon a time" --max-new-tokens 40
