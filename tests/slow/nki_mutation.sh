#!/usr/bin/env bash
# Proves by mutation that `neuronmm nki --ref` lets no wrong kernel pass: right kernels pass, and five
# wrong variants of each fail. The kernels are ours, those that `emit` writes, and optionally others.
#   tests/slow/nki_mutation.sh [FILE.py:FUNCTION...]
# A function returns a list of cases.Case, for example for the vendor's samples in a copy of their
# repository (tests/slow/nki_mutation/samples.py).
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly neuronmm=${NEURONMM:-$PWD/build/release/neuronmm}
cases=()
for text in "$@"; do cases+=(--cases "$text"); done
PYTHONPATH=python exec /usr/bin/python3 tests/trainium/nki_mutation/proof.py --program "$neuronmm" "${cases[@]}"
