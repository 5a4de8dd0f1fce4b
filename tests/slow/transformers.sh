#!/usr/bin/env bash
# Opens the folders that compress, quantize and finetune write with PyPI's transformers on the CPU;
# see transformers/folders.py.
#
# Usage: tests/slow/transformers.sh [VERSION...]
#
# The arguments are versions of transformers. The default is the newest and the oldest tested
# version.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly work=build/transformers torch=2.8.0
[ -x $work/venv/bin/python ] || python3 -m venv $work/venv
pip="$work/venv/bin/pip install --quiet --disable-pip-version-check"
# PyPI's package of torch contains everything for GPUs, which is not needed here.
$pip --retries 0 --timeout 10 --index-url https://download.pytorch.org/whl/cpu torch==$torch 2>/dev/null || $pip torch==$torch
export TOKENIZERS_PARALLELISM=false TRANSFORMERS_VERBOSITY=error HF_HUB_OFFLINE=1 HF_HUB_DISABLE_PROGRESS_BARS=1
export HF_MODULES_CACHE=$PWD/$work/modules
[ $# -gt 0 ] || set -- 5.23.0 4.57.1
for version; do
  $pip numpy==2.4.6 safetensors==0.8.0 transformers=="$version"
  rm -rf $work/modules
  $work/venv/bin/python -W ignore tests/slow/transformers/folders.py build/release/neuronmm $work/models
done
$pip transformers==5.23.0  # older versions have no rope_parameters
$work/venv/bin/python -W ignore tests/slow/transformers/per_layer.py
$work/venv/bin/python -W ignore tests/slow/transformers/rope.py build/release/neuronmm $work/rope
rm -rf $work/models $work/modules $work/rope
