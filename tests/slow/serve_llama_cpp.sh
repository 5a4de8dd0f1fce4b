#!/usr/bin/env bash
# Tests a server on the demo model with clients of llama.cpp's server: Llamafile of langchain-community,
# which uses /completion, and the terminal program llm with its plugin for llama-server. Prompts of
# /infill are compared with the tokenizers library, and answers in GBNF with llguidance, which reads
# the same grammars.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly venv=build/llama_venv
[ -x $venv/bin/python ] || python3 -m venv $venv
$venv/bin/pip install --quiet langchain-community==0.4 llguidance==1.9.1 llm==0.27.1 llm-llama-server==0.2 \
  tokenizers==0.22.1 httpx==0.28.1 pytest==8.4.2
ninja -C build/release neuronmm
PYTHONPATH=tests/slow/serve $venv/bin/python -m pytest --quiet -p no:cacheprovider tests/slow/serve_llama_cpp "$@"
