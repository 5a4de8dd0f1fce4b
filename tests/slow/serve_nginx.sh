#!/usr/bin/env bash
# deploy/nginx.conf in front of two servers under load, of which one is killed, begun again and drained: every answer is whole or an
# error that its client sees. NEURONMM is the program.
#   tests/slow/serve_nginx.sh [SECONDS]       of load in each of the four parts, 4 by default
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/install_dependencies.sh proxy
python3 tests/slow/serve_nginx/balance.py --seconds "${1:-4}"
