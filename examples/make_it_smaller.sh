#!/usr/bin/env bash
# Makes a model smaller in three ways: its weights in 4 bits, the best model within half of its
# bytes, and MLPs with a fifth of their parameters removed. Prints what each of them loses.
#
#   examples/make_it_smaller.sh [MODEL_DIR [TEXT [OUT [TOKENS [TEST]]]]]
#
# MODEL_DIR is a Hugging Face folder, and TEXT a text like those that the model will see. TOKENS of
# the text are used. The losses are measured on TEST, because on TEXT itself they would look too
# small.
set -euo pipefail
# shellcheck source=examples/setup.sh
. "$(dirname "$0")/setup.sh"
model=${1:-$root/models/demo}
text=${2:-$root/models/demo/calibration.txt}
out=${3:-$work/smaller}
test=${5:-$root/models/demo/evaluation.txt}
calibration=(--calibration "$text" --calibration-tokens "${4:-4096}")
bytes=$(cat "$model"/*.safetensors | wc -c)

mkdir -p "$out"
"$neuronmm" quantize "$model" -o "$out/4_bits" --bits 4 "${calibration[@]}" --force
"$neuronmm" fit "$model" -o "$out/half" --bytes "$((bytes / 2))" "${calibration[@]}" --force
"$neuronmm" compress "$model" -o "$out/smaller_mlps" --ratio 0.2 "${calibration[@]}" --force
for result in 4_bits half smaller_mlps; do
  printf '\n%s: %s bytes\n' "$result" "$(cat "$out/$result"/*.safetensors | wc -c)"
  "$neuronmm" perplexity "$out/$result" "$test" --reference "$model" --context 256 --limit 8 | grep -E '^(perplexity|KL)'
done
