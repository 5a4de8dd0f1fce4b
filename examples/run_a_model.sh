#!/usr/bin/env bash
# Runs a model that you have: shows what it is, continues a text, and measures its speed.
#
#   examples/run_a_model.sh [MODEL]
#
# MODEL is a Hugging Face folder or a GGUF file. The bundled model is the default.
set -euo pipefail
# shellcheck source=examples/setup.sh
. "$(dirname "$0")/setup.sh"
model=${1:-$root/models/demo}

if [ -f "$model" ]; then
  "$neuronmm" import "$model" -o "$work/imported" --force
  model=$work/imported
fi
"$neuronmm" inspect "$model"
"$neuronmm" generate "$model" "Once upon a time" --max-new-tokens 40
"$neuronmm" bench "$model" --prompt-tokens 64 --new-tokens 16 --runs 1
echo "To talk with a chat model: neuronmm chat $model"
echo "To serve it over HTTP:     neuronmm serve $model"
