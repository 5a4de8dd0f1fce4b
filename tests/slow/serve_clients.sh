#!/usr/bin/env bash
# Tests other people's client libraries against a server on the demo model: LiteLLM, LangChain,
# LlamaIndex, Instructor, Pydantic AI, OpenAI's agents, Outlines, smolagents and DSPy. Each is used
# as its documentation shows. Answers that obey a schema must become objects of these libraries.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly neuronmm=${NEURONMM:-$PWD/build/release/neuronmm} venv=build/clients_venv work=build/serve_clients
[ -x $venv/bin/python ] || python3 -m venv $venv
$venv/bin/pip install --quiet pytest==8.4.2 litellm==1.110.2 langchain-openai==1.4.3 llama-index-llms-openai-like==0.8.1 \
  instructor==1.17.0 "pydantic-ai-slim[openai]==2.31.1" openai-agents==0.20.0 outlines==1.3.3 "smolagents[openai]==1.26.0" \
  dspy==3.4.1 openai==2.54.0
rm -rf $work
mkdir -p $work
. tests/slow/serve_load/chat_model.sh
serve_chat_model --served-model-name demo
OPENAI_BASE_URL=$url/v1 OPENAI_API_BASE=$url/v1 OPENAI_API_KEY=none LITELLM_LOCAL_MODEL_COST_MAP=True DSPY_CACHEDIR=$work/dspy \
  $venv/bin/python -m pytest --quiet -p no:cacheprovider tests/slow/serve_clients "$@"
