#!/usr/bin/env bash
# Compresses the MLPs of a model by a fifth, shows what was kept, and lets the result write.
#   examples/compress.sh [MODEL_DIR [TEXT [OUT]]]     a Hugging Face folder, a text like those it will meet
set -euo pipefail
root=$(dirname "$0")/..
neuronmm=${NEURONMM:-$root/build/neuronmm}
work=${WORK:-$root/build/examples}
model=${1:-$root/models/demo}
text=${2:-$root/models/demo/calibration.txt}
out=${3:-$work/small}

case $model in
  */models/demo) block=64 ;;                          # it is only 384 wide
  *) block=128 ;;                                     # the width of a NeuronCore's tiles
esac
mkdir -p "$work"
"$neuronmm" compress "$model" -o "$out" --form uv --ratio 0.2 --block $block --method error-aware --calibration "$text" --force
"$neuronmm" inspect "$out"
"$neuronmm" generate "$out" --prompt "Once upon a time" --max-new-tokens 40
