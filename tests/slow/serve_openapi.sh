#!/usr/bin/env bash
# schemathesis over the server's own OpenAPI description, on the demo model with a chat template: requests that the description
# allows, and that it does not. No 5xx; statuses, content types, headers and bodies of answers as described; what the description
# does not allow is refused; methods that are not there are 405 with Allow; keys are asked for.
#   tests/slow/serve_openapi.sh [EXAMPLES]       requests per endpoint and phase, 60 by default
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly neuronmm=${NEURONMM:-$PWD/build/release/neuronmm} venv=build/openapi_venv work=build/serve_openapi
[ -x $venv/bin/python ] || python3 -m venv $venv
$venv/bin/pip install --quiet schemathesis==4.32.5 openapi-spec-validator==0.9.0
rm -rf $work
mkdir -p $work
. tests/slow/serve_load/chat_model.sh
serve_chat_model --context-length 64 --api-key secret --access-log $work/access.log
curl --silent --fail "$url/openapi.json" >$work/openapi.json
$venv/bin/python -m openapi_spec_validator $work/openapi.json
# What is right and cannot be answered (a prompt beyond the context, an unknown model) is 400 or 404: positive_data_acceptance would
# have it answered. tests/serve/protocol/openapi_test.cc compares what is taken with what is described.
$venv/bin/schemathesis run "$url/openapi.json" --header "Authorization: Bearer secret" \
  --exclude-checks positive_data_acceptance --max-examples "${1:-60}" --seed 1 --continue-on-failure \
  --request-timeout 60 --report json --report-json-path $work/report.json
kill -TERM $server
wait $server
