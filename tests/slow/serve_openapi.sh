#!/usr/bin/env bash
# Tests a server on the demo model with a chat template by schemathesis, which sends requests that
# the server's own OpenAPI description allows and requests that it forbids. No answer may be a 5xx.
# Statuses, content types, headers and bodies of answers must be as described. Requests that the
# description forbids must be refused, unknown methods with 405 and Allow, and requests without the
# key must be refused, too.
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
# The check positive_data_acceptance is off, because it demands an answer for every valid request.
# The server answers 400 or 404 if a prompt is longer than the context or a model is unknown.
# tests/serve/protocol/openapi_test.cc compares the requests that are accepted with the description.
$venv/bin/schemathesis run "$url/openapi.json" --header "Authorization: Bearer secret" \
  --exclude-checks positive_data_acceptance --max-examples "${1:-60}" --seed 1 --continue-on-failure \
  --request-timeout 60 --report json --report-json-path $work/report.json
kill -TERM $server
wait $server
