#!/usr/bin/env bash
# Compares a real model in neuronmm with transformers (fp32), with lm-evaluation-harness and, if
# available, with llama-perplexity. Perplexities are of the same texts in the same windows, and
# accuracies of the same items.
#
#   bench/real_model.sh MODEL_DIR DATA_DIR [FILE.gguf]
#
# MODEL_DIR is a folder that `import --dtype f32` has written. DATA_DIR has text/wiki.test.raw,
# text/c4_sample.jsonl (a {"text": ...} per line) and tasks/*.jsonl. PyPI's programs are installed
# into build/real_model.
#
# Environment variables:
# - LIMIT: the number of items per task (default 200).
# - BYTES: the length of each text (default 300000).
# - LLAMA_PERPLEXITY: the path of llama.cpp's llama-perplexity, which reads FILE.gguf.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,/^set /s/^# \?//p' "$0" >&2; exit 2; }
for path in "$1/config.json" "$2"/text/{wiki.test.raw,c4_sample.jsonl} "$2/tasks"; do
  [ -e "$path" ] || { echo "$path: expected it to exist" >&2; exit 1; }
done
root=$(realpath "$(dirname "$0")/..")
neuronmm=${NEURONMM:-$root/build/release/neuronmm}
work=$root/build/real_model limit=${LIMIT:-200} bytes=${BYTES:-300000}
model=$(realpath "$1") data=$(realpath "$2") gguf=${3:+$(realpath "$3")}
mkdir -p "$work"
if [ ! -x "$work/venv/bin/lm_eval" ]; then
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet torch==2.8.0 transformers==5.23.0 lm-eval==0.4.13 accelerate datasets
fi
export HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error TOKENIZERS_PARALLELISM=false
python=$work/venv/bin/python

# Only the beginning of each text is used, because transformers needs ten minutes for all of
# WikiText-2.
rm -f "$work"/*.txt
head -c "$bytes" "$data/text/wiki.test.raw" | iconv -c -f utf-8 -t utf-8 >"$work/wikitext2.txt" || true
"$python" -c 'import json, sys; print("\n\n".join(json.loads(line)["text"] for line in open(sys.argv[1])), end="")' \
  "$data/text/c4_sample.jsonl" | head -c "$bytes" | iconv -c -f utf-8 -t utf-8 >"$work/c4.txt" || true
for text in wikitext2 c4; do
  printf '\n== perplexity of %s, windows of 2048\n' $text
  "$neuronmm" perplexity "$model" "$work/$text.txt" --json - 2>/dev/null | grep -E '"(perplexity|scored_tokens)"'
  "$python" "$root/bench/real_model/perplexity.py" "$model" "$work/$text.txt" 2048
  if [ -n "${LLAMA_PERPLEXITY:-}" ] && [ -n "$gguf" ]; then
    "$LLAMA_PERPLEXITY" -m "$gguf" -f "$work/$text.txt" -c 2048 -b 2048 2>&1 | grep 'Final estimate'
  fi
done

printf '\n== tasks, the first %s items of each\n' "$limit"
rm -rf "$work/tasks" "$work/harness"
cp -r "$root/bench/real_model/tasks" "$work/tasks"
sed -i "s#DATA#$data#" "$work"/tasks/*.yaml
tasks=openbookqa,winogrande,piqa,hellaswag,arc_easy,arc_challenge
"$work/venv/bin/lm_eval" --model hf --model_args "pretrained=$model,dtype=float32" --include_path "$work/tasks" \
  --tasks "local_${tasks//,/,local_}" --limit "$limit" --batch_size 8 --device cpu --log_samples --output_path "$work/harness"
"$neuronmm" eval "$model" --data "$data" --tasks "$tasks" --limit "$limit" --log-samples "$work/samples.jsonl"
"$python" "$root/bench/real_model/compare_items.py" "$work/harness" "$work/samples.jsonl"
