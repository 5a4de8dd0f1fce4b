#!/usr/bin/env bash
# Compares ids and texts of published tokenizers and of random pipelines with PyPI's tokenizers.
#
# Usage: tests/slow/tokenizers.sh [TOKENIZER.json...]
#
# The arguments are tokenizers to test in addition to those of the test data.
set -euo pipefail
cd "$(dirname "$0")/../.."
data=${NEURONMM_TEST_DATA:-../shared/data}
[ -d "$data/tokenizers" ] || { echo "no test data at $data: nothing to compare"; exit 0; }
others=()
for path in "$@"; do others+=("$(realpath "$path")"); done

ninja -C build/release tokenizer_lines
venv=build/tokenizers_venv
[ -x $venv/bin/python ] || python3 -m venv $venv
$venv/bin/pip install --quiet tokenizers==0.23.3

program=$PWD/build/release/tests/text/tokenizer_lines data=$(realpath "$data")
cd tests/slow/tokenizers
python=../../../$venv/bin/python
# The library reports its own panics on standard error.
$python random_pipelines.py "$program" "$data/text/wiki.valid.raw" "${NEURONMM_PIPELINES:-2000}" 2>../../../build/tokenizers_panics.log
$python published.py "$program" "$data" ../../.. "$data"/tokenizers/{llama2,llama3,qwen3}/tokenizer.json \
  "$data"/oracles/hf-tiny/*_tokenizer.json "${others[@]}"
