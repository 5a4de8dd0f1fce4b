#!/usr/bin/env bash
# Compares models that neuronmm merges with adapters of PyPI's PEFT; see adapters/adapters.py. Makes
# the files of tests/io/adapter_golden anew, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly work=build/adapters torch=2.8.0
[ -x $work/venv/bin/python ] || python3 -m venv $work/venv
pip="$work/venv/bin/pip install --quiet --disable-pip-version-check"
# PyPI's package of torch contains everything for GPUs, which is not needed here.
$pip --retries 0 --timeout 10 --index-url https://download.pytorch.org/whl/cpu torch==$torch 2>/dev/null || $pip torch==$torch
$pip numpy==2.4.6 safetensors==0.8.0 transformers==5.24.0 peft==0.21.2
export TOKENIZERS_PARALLELISM=false TRANSFORMERS_VERBOSITY=error HF_HUB_OFFLINE=1 HF_HUB_DISABLE_PROGRESS_BARS=1
rm -rf $work/golden $work/models
$work/venv/bin/python -W ignore tests/io/make_adapter_golden.py $work/golden
for case in tests/io/adapter_golden/*/; do
  cmp "$case/merged.safetensors" "$work/golden/$(basename "$case")/merged.safetensors"
done
$work/venv/bin/python -W ignore tests/slow/adapters/adapters.py build/release/neuronmm $work/models
rm -rf $work/golden $work/models
