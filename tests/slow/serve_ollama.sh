#!/usr/bin/env bash
# Tests a server on the demo model with the published clients of Ollama: ollama, langchain-ollama,
# llama-index-llms-ollama, and litellm with its routes to Ollama and OpenAI, and with
# langchain-openai. The tests cover chats, streams, rounds of tools, shapes and embeddings. Then two
# terminal programs for Ollama, llm and oterm, have a conversation in a real terminal. The embeddings
# are compared with hidden states that transformers computes, if tests/slow/transformers.sh has
# installed it.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly venv=build/ollama_venv front_end=build/oterm_venv
[ -x $venv/bin/python ] || python3 -m venv $venv
$venv/bin/pip install --quiet ollama==0.6.3 langchain-ollama==1.1.0 langchain-openai==1.7.4 llama-index-llms-ollama==0.11.0 \
  llama-index-embeddings-ollama==0.10.0 litellm==1.110.2 openai==3.54.0 llm==0.36 llm-ollama==0.19.1 \
  pexpect==4.9.0 httpx==0.28.1 pytest==8.4.2
[ -x $front_end/bin/python ] || python3 -m venv $front_end
$front_end/bin/pip install --quiet oterm==0.26.1 pexpect==4.9.0 pyte==0.8.2 httpx==0.28.1 pytest==8.4.2
ninja -C build/release neuronmm
export PYTHONPATH=tests/slow/serve LITELLM_LOCAL_MODEL_COST_MAP=True
$venv/bin/python -m pytest --quiet -p no:cacheprovider tests/slow/serve_ollama \
  --ignore tests/slow/serve_ollama/test_oterm.py "$@"
$front_end/bin/python -m pytest --quiet -p no:cacheprovider tests/slow/serve_ollama/test_oterm.py
