#!/usr/bin/env bash
# Runs the folders that export writes, from end to end. Stubs replace vLLM's Neuron plugin and NxD
# Inference; see export/folders.py.
#
# Usage: tests/slow/export.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly work=build/export torch=2.8.0
[ -x $work/venv/bin/python ] || python3 -m venv $work/venv
pip="$work/venv/bin/pip install --quiet --disable-pip-version-check"
# PyPI's package of torch contains everything for GPUs, which is not needed here.
$pip --retries 0 --timeout 10 --index-url https://download.pytorch.org/whl/cpu torch==$torch 2>/dev/null || $pip torch==$torch
$pip setuptools==80.9.0 numpy==2.4.6 safetensors==0.8.0 transformers==5.23.0 ml_dtypes==0.6.0
export TOKENIZERS_PARALLELISM=false TRANSFORMERS_VERBOSITY=error HF_HUB_OFFLINE=1 HF_HUB_DISABLE_PROGRESS_BARS=1
export HF_MODULES_CACHE=$PWD/$work/modules
rm -rf $work/modules
$work/venv/bin/python -W ignore tests/slow/export/folders.py build/release/neuronmm $work/models
rm -rf $work/models $work/modules
