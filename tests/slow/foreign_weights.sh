#!/usr/bin/env bash
# Tests folders that other programs rounded with compressed-tensors and AutoAWQ; see foreign_weights.py.
set -euo pipefail
cd "$(dirname "$0")/../.."
python3 -m venv build/foreign_venv
build/foreign_venv/bin/pip install --quiet compressed-tensors==0.20.1 numpy==2.4.6 safetensors==0.8.0 torch==2.8.0
build/foreign_venv/bin/pip install --quiet --no-deps autoawq==0.2.7.post3
build/foreign_venv/bin/python tests/slow/foreign_weights.py build/release/neuronmm build/foreign_weights
rm -rf build/foreign_weights
