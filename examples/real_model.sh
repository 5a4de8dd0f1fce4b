#!/usr/bin/env bash
# The whole way of a model of your own: a GGUF file or a Hugging Face folder becomes a small model that talks, and a table
# says what that cost.
#   examples/real_model.sh [MODEL [TEXT [DATA_DIR [OUT]]]]
# TEXT: like what the model will meet; the factors are fitted to it. DATA_DIR: docs/evaluation.md says what it holds.
# RATIO, BLOCK, TASKS and LIMIT (items per task) may be set in the environment.
set -euo pipefail
root=$(dirname "$0")/..
neuronmm=${NEURONMM:-$root/build/neuronmm}
work=${WORK:-$root/build/examples}
model=${1:-$root/models/demo}
text=${2:-$root/models/demo/calibration.txt}
data=${3:-$work/data}
out=${4:-$work/real_model}
tasks=${TASKS:-wikitext2,openbookqa,winogrande,piqa,hellaswag,arc_easy,arc_challenge}

step() { printf '\n== %s\n' "$*"; }
talk() {
  # A base model has no chat template; it goes on with a text.
  printf '%s\n' "What is the capital of France?" "And of Italy?" |
    "$neuronmm" chat "$1" --greedy --max-new-tokens 60 || "$neuronmm" generate "$1" "Once upon a time" --max-new-tokens 60
}

if [ $# -lt 3 ] && [ ! -e "$data" ]; then             # nothing to download: a text of our own
  tasks=ptb
  mkdir -p "$data"
  head -c 6000 "$root/models/demo/evaluation.txt" >"$data/ptb.test.txt"
fi
mkdir -p "$out"
dense=$model
if [ -f "$model" ]; then
  step "import"
  dense=$out/dense
  "$neuronmm" import "$model" -o "$dense" --force
fi

step "chat with the dense model"
talk "$dense"

# Ranks are multiples of the block: 64 keeps a small model's ranks near the asked ones, 128 are a NeuronCore's tiles.
step "compress"
"$neuronmm" compress "$dense" -o "$out/small" --ratio "${RATIO:-0.2}" --block "${BLOCK:-64}" --method error-aware \
  --calibration "$text" --force

step "chat with the compressed model"
talk "$out/small"

step "evaluate and compare"
"$neuronmm" compare "$dense" "$out/small" --data "$data" --tasks "$tasks" --limit "${LIMIT:-100}"
