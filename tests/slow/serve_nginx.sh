#!/usr/bin/env bash
# Tests deploy/nginx.conf in front of two servers under load. One server is killed, restarted and
# drained. Every answer must be complete or an error that its client sees. NEURONMM is the path of
# the program.
#   tests/slow/serve_nginx.sh [SECONDS]       of load in each of the four parts, 4 by default
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/install_dependencies.sh proxy
python3 tests/slow/serve_nginx/balance.py --seconds "${1:-4}"
