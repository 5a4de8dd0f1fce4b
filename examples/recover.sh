#!/usr/bin/env bash
# Trains a compressed model to imitate the dense one. The result is better at the same size and
# speed.
#
#   examples/recover.sh [DENSE_DIR COMPRESSED_DIR TEXT OUT]
set -euo pipefail
# shellcheck source=examples/setup.sh
. "$(dirname "$0")/setup.sh"
[ $# -eq 0 ] || [ $# -eq 4 ] || usage
dense=${1:-$root/models/demo}
small=${2:-$work/half}
text=${3:-$root/models/demo/calibration.txt}
out=${4:-$work/recovered}

[ $# -gt 0 ] || "$neuronmm" compress "$dense" -o "$small" --form uv --ratio 0.5 --block 64 --calibration "$text" --force
"$neuronmm" finetune "$small" --data "$text" -o "$out" --teacher "$dense" --learning-rate 3e-4 --force
for model in "$dense" "$small" "$out"; do
  echo "$model: $("$neuronmm" perplexity "$model" "$root/models/demo/evaluation.txt" 2>/dev/null | grep '^perplexity')"
done
