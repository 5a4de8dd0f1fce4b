#!/usr/bin/env bash
# Makes the tiny models of all families anew with PyPI's transformers, compares them with the golden
# files, and runs folders that compress and quantize write of them in transformers; see
# families/make_families.py and families/folders.py.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly work=build/families torch=2.8.0
[ -x $work/venv/bin/python ] || python3 -m venv $work/venv
pip="$work/venv/bin/pip install --quiet --disable-pip-version-check"
# PyPI's package of torch contains everything for GPUs, which is not needed here.
$pip --retries 0 --timeout 10 --index-url https://download.pytorch.org/whl/cpu torch==$torch 2>/dev/null || $pip torch==$torch
$pip numpy==2.4.6 safetensors==0.8.0 transformers==5.24.0 gguf==0.19.0 pillow
export TOKENIZERS_PARALLELISM=false TRANSFORMERS_VERBOSITY=error HF_HUB_OFFLINE=1 HF_HUB_DISABLE_PROGRESS_BARS=1
export HF_MODULES_CACHE=$PWD/$work/modules
rm -rf $work/new $work/modules $work/models
$work/venv/bin/python -W ignore tests/slow/families/make_families.py $work/new
$work/venv/bin/python tests/slow/families/compare_goldens.py tests/model/families $work/new
$work/venv/bin/python -W ignore tests/slow/families/folders.py build/release/neuronmm $work/models
rm -rf $work/new $work/modules $work/models
