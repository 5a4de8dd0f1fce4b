#!/usr/bin/env bash
# Chat templates against jinja2 as transformers sets it up: our own test templates and those of the folders in
# $NEURONMM_TEMPLATES (with spaces between), each with every conversation; then random templates. The golden file of the
# unit tests has to be what jinja2 makes today.
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
