#!/usr/bin/env bash
# Compares chat templates with jinja2 as transformers configures it. First, every conversation is
# rendered with the test templates of this repository and those in the folders of
# $NEURONMM_TEMPLATES (separated by spaces). Then random templates are compared. Finally, the golden
# file of the unit tests must be what jinja2 produces, and every template must accept the
# conversations that the server itself produces.
#
# Usage with more random templates:
#   NEURONMM_RANDOM_TEMPLATES=20000 tests/slow/chat_templates.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly here=tests/slow/chat_templates work=build/chat_templates
readonly program=build/release/tests/text/jinja/render_lines
mkdir -p $work
if [ ! -x $work/venv/bin/python ]; then
  python3 -m venv $work/venv
  $work/venv/bin/pip install --quiet jinja2==3.1.6 markupsafe==3.0.4 transformers==5.23.0
fi
python="$work/venv/bin/python -W ignore"
cmake --build build/release --target render_lines >/dev/null
export TZ=UTC TRANSFORMERS_VERBOSITY=error
# shellcheck disable=SC2086
$python $here/compare.py $program $here/templates ${NEURONMM_TEMPLATES:-}
$python $here/random_templates.py $program "${NEURONMM_RANDOM_TEMPLATES:-3000}"
$python $here/make_golden.py $work/golden.json
cmp $work/golden.json tests/text/jinja/golden.json
cmake --build build/release --target test_serve_protocol >/dev/null
build/release/tests/serve/protocol/test_serve_protocol --gtest_brief=1 --gtest_filter='PlayedBack.*'
