#!/usr/bin/env bash
# Tests the server's web page in a real Chromium: first against a stand-in server with scripted
# answers (faults, attacks), then served by the program. Also tests the Grafana dashboard.
# Screenshots go to build/serve_web/pictures. NEURONMM_PROGRAM is the path of the program. Arguments
# select single tests:
#   tests/slow/serve_web.sh test_chat.Chat.test_regenerate_and_undo
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly here=tests/slow/serve_web venv=build/serve_web/venv
tools/install_dependencies.sh browser
[ -x $venv/bin/python ] || python3 -m venv $venv
# Only the copy of axe-core 4.12.1 in the last package is used.
$venv/bin/pip install --quiet selenium==4.51.0 promql-parser==0.12.0
$venv/bin/pip install --quiet --no-deps axe-playwright-python==0.1.8

ninja -C build/release src/serve/web/index.html
$venv/bin/python $here/dashboard.py
export PYTHONPATH=$here
if [ $# -gt 0 ]; then
  exec $venv/bin/python -m unittest --verbose "$@"
fi
$venv/bin/python -m unittest discover --verbose --start-directory $here
