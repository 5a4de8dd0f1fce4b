#!/usr/bin/env bash
# The real clients of OpenAI and of Anthropic against a server on the demo model: chats, responses, messages and completions,
# whole and as streams, sync and async, structured output, tools, log probabilities, errors, TLS and draining.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly venv=build/sdks_venv
[ -x $venv/bin/python ] || python3 -m venv $venv
$venv/bin/pip install --quiet openai==3.54.0 anthropic==2.14.0 httpx==0.28.1 pytest==8.4.2
ninja -C build/release neuronmm
$venv/bin/python -m pytest --quiet -p no:cacheprovider tests/slow/serve "$@"
