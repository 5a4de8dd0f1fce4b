#!/usr/bin/env bash
# `neuronmm serve` for a while as the world treats it, then with thousands of connections that do nothing.
#   tests/slow/serve_soak.sh [MINUTES]       5 by default; at least 10,000 requests
set -euo pipefail
cd "$(dirname "$0")/serve_soak"
python3 soak.py --minutes "${1:-5}"
python3 idle.py
