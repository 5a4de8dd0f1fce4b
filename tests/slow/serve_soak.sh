#!/usr/bin/env bash
# Tests `neuronmm serve` for some minutes with clients that behave as in the real world (soak.py),
# then with thousands of idle connections (idle.py).
#   tests/slow/serve_soak.sh [MINUTES]       5 by default; at least 10,000 requests
set -euo pipefail
cd "$(dirname "$0")/serve_soak"
python3 soak.py --minutes "${1:-5}"
python3 idle.py
