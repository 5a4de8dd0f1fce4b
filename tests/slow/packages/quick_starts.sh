#!/usr/bin/env bash
# Usage: quick_starts.sh COMMANDS [GGUF]. Runs the quick starts of the README in an empty folder, with the
# neuronmm of the PATH. COMMANDS has their commands, one a line, as read_quick_starts.py prints them.
# GGUF stands for the file that quick start 1 is about. Without GGUF that part is skipped.
set -euo pipefail
commands=$1 gguf=${2:-}
work=$(mktemp -d)
cd "$work"
neuronmm demo -o try
cd try
fail() { echo "$*" >&2; exit 1; }

[ -z "$gguf" ] || ln -s "$gguf" qwen2.5-coder-0.5b-instruct-q4_k_m.gguf
while read -r number command; do
  if [ "$number" = 1 ] && [ -z "$gguf" ]; then
    echo "skipped: $command: needs a GGUF file in NEURONMM_TEST_GGUF"
    continue
  fi
  case "$command" in
    "neuronmm chat Qwen/"*) echo "skipped: $command: needs a model in the cache of Hugging Face"; continue ;;
    "neuronmm serve "*) echo "skipped: $command: runs until it is stopped"; continue ;;
    "neuronmm chat "*) command+=" --max-new-tokens 8 <<<Hello" ;;
  esac
  echo "\$ $command"
  bash -c "$command" </dev/null >output 2>errors || { cat errors >&2; fail "$command: exit code $?"; }
  cp output "output_$(wc -w <<<"$command")_${command//[^a-z]/}"
done <"$commands"

# The loss is small, the text is one, and a simulated time is the same everywhere.
cat output_* >all
grep -q '^KL  *0\.0' all || fail "expected a KL divergence below 0.1"
grep -q 'latency  *168\.04 us' all || fail "expected the latency that README.md shows"
grep -q 'written to small' all || fail "expected that fit names its folder"
grep -q nki xuv.py || fail "expected NKI source in xuv.py"
cd /
rm -rf "$work"
