#!/usr/bin/env bash
# Tests `neuronmm serve` for an hour with clients that behave as in the real world and with faults of
# the machine (soak.py), then with thousands of idle connections (idle.py).
#   tests/slow/serve_soak.sh [MINUTES]       60 by default; at least 10,000 requests
set -euo pipefail
cd "$(dirname "$0")/serve_soak"
python3 soak.py --minutes "${1:-60}"
python3 idle.py
