#!/usr/bin/env bash
# Makes a small model for chatting from a model of your own (a GGUF file or a Hugging Face folder).
# Then prints a table that compares the quality and speed of both models.
#
#   bench/compress_real_model.sh [MODEL [TEXT [DATA_DIR [OUT]]]]
#
# TEXT is a text like those that the model will see, and the factors are fitted to it. See
# docs/reference/scores.md for the contents of DATA_DIR. RATIO, CALIBRATION_TOKENS, TASKS and LIMIT
# (items per task) may be set in the environment. With the defaults a model of 135 million parameters
# takes a quarter of an hour on two cores.
set -euo pipefail
root=$(dirname "$0")/..
neuronmm=${NEURONMM:-$root/build/neuronmm}
work=${WORK:-$root/build/bench}
model=${1:-$root/models/demo}
text=${2:-$root/models/demo/calibration.txt}
data=${3:-$work/real_model_data}
out=${4:-$work/real_model}
tasks=${TASKS:-openbookqa,winogrande,piqa,hellaswag,arc_easy,arc_challenge}

step() { printf '\n== %s\n' "$*"; }
talk() {
  # A base model has no chat template, and continues a text instead.
  printf '%s\n' "What is the capital of France?" "And of Italy?" |
    "$neuronmm" chat "$1" --greedy --max-new-tokens 60 || "$neuronmm" generate "$1" "Once upon a time" --max-new-tokens 60
}

# Without DATA_DIR nothing is downloaded: the data are a text and a question that this script writes.
if [ $# -lt 3 ]; then
  tasks=winogrande
  mkdir -p "$data"
  head -c 6000 "$root/models/demo/evaluation.txt" >"$data/wikitext2.txt"
  echo '{"sentence": "The cat ran from the dog because _ was scared.", "option1": "the cat", "option2": "the dog", "answer": "1"}' \
    >"$data/winogrande_xl_val.jsonl"
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

step "compress"
"$neuronmm" compress "$dense" -o "$out/small" --ratio "${RATIO:-0.2}" \
  --calibration "$text" --calibration-tokens "${CALIBRATION_TOKENS:-32768}" --force

step "chat with the compressed model"
talk "$out/small"

step "evaluate: perplexity of WikiText-2, its first 20 chunks"
for folder in "$dense" "$out/small"; do
  "$neuronmm" eval "$folder" --data "$data" --tasks wikitext2 --limit 20
done

step "compare"
"$neuronmm" compare "$dense" "$out/small" --data "$data" --tasks "$tasks" --limit "${LIMIT:-100}"
