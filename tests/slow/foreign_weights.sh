#!/usr/bin/env bash
# Tests folders that other programs rounded with compressed-tensors and AutoAWQ; see foreign_weights.py.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly venv=build/foreign_venv torch=2.10.0
[ -x $venv/bin/python ] || python3 -m venv $venv
pip="$venv/bin/pip install --quiet --disable-pip-version-check"
# PyPI's package of torch contains everything for GPUs, which is not needed here.
$pip --retries 0 --timeout 10 --index-url https://download.pytorch.org/whl/cpu torch==$torch 2>/dev/null || $pip torch==$torch
$pip compressed-tensors==0.20.1 numpy==2.4.6 safetensors==0.8.0
$pip --no-deps autoawq==0.2.7.post3
$venv/bin/python tests/slow/foreign_weights.py build/release/neuronmm build/foreign_weights
rm -rf build/foreign_weights
