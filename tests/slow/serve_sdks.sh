#!/usr/bin/env bash
# Tests a server on the demo model with the published clients of OpenAI and Anthropic. The tests
# cover chats, responses, messages and completions, with and without streams, sync and async. They
# also cover structured output, tools, log probabilities, errors, TLS and draining.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly venv=build/sdks_venv
[ -x $venv/bin/python ] || python3 -m venv $venv
$venv/bin/pip install --quiet openai==3.54.0 anthropic==2.14.0 httpx==0.28.1 pytest==8.4.2
ninja -C build/release neuronmm
$venv/bin/python -m pytest --quiet -p no:cacheprovider tests/slow/serve "$@"
