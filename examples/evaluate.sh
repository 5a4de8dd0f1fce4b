#!/usr/bin/env bash
# Compares the quality and speed of a compressed model with those of the dense one, in one table.
#
#   examples/evaluate.sh [DENSE_DIR COMPRESSED_DIR DATA_DIR]
#
# See docs/reference/scores.md for the contents of DATA_DIR.
set -euo pipefail
# shellcheck source=examples/setup.sh
. "$(dirname "$0")/setup.sh"
[ $# -eq 0 ] || [ $# -eq 3 ] || usage
dense=${1:-$root/models/demo}
small=${2:-$work/evaluated}
data=${3:-$work/data}
tasks=wikitext2,openbookqa,winogrande,piqa,hellaswag,arc_easy,arc_challenge

# Without arguments nothing is downloaded: the data are a text and a question that this script writes.
if [ $# -eq 0 ]; then
  tasks=ptb,winogrande
  mkdir -p "$data"
  head -c 6000 "$root/models/demo/evaluation.txt" >"$data/ptb.test.txt"
  echo '{"sentence": "The cat ran from the dog because _ was scared.", "option1": "the cat", "option2": "the dog", "answer": "1"}' \
    >"$data/winogrande_xl_val.jsonl"
  "$neuronmm" compress "$dense" -o "$small" --ratio 0.5 --block 64 --method svd --force
fi
"$neuronmm" compare "$dense" "$small" --data "$data" --tasks "$tasks" --prompt-tokens 64 --new-tokens 16
"$neuronmm" compare "$dense" "$small" --data "$data" --tasks winogrande --prompt-tokens 64 --new-tokens 16 --device trn1
