#!/usr/bin/env bash
# Runs examples/gpu_recovery.py on the CPU with PyPI's torch and transformers: a compressed folder
# of the bundled model learns from it in a few steps, and neuronmm reads the result.
#
# Usage: tests/slow/gpu_recovery.sh [PYTHON]
#
# PYTHON has torch, transformers and safetensors. By default a virtual environment gets them.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly work=build/gpu_recovery torch=2.8.0 demo=models/demo neuronmm=${NEURONMM:-build/release/neuronmm}
mkdir -p $work
python=${1:-$work/venv/bin/python}
if [ $# -eq 0 ]; then
  [ -x $work/venv/bin/python ] || python3 -m venv $work/venv
  pip="$work/venv/bin/pip install --quiet --disable-pip-version-check"
  # PyPI's package of torch contains everything for GPUs, which is not needed here.
  $pip --retries 0 --timeout 10 --index-url https://download.pytorch.org/whl/cpu torch==$torch 2>/dev/null || $pip torch==$torch
  $pip numpy==2.4.6 safetensors==0.8.0 transformers==5.24.0
fi
export TOKENIZERS_PARALLELISM=false TRANSFORMERS_VERBOSITY=error HF_HUB_OFFLINE=1 HF_MODULES_CACHE=$PWD/$work/modules
divergence() { "$neuronmm" perplexity "$1" $demo/evaluation.txt --reference $demo 2>/dev/null | awk '$1 == "KL" {print $2}'; }
# Form mixed begins close to the dense model and wants a smaller rate.
for case in "uv 3e-4" "mixed 1e-4"; do
  read -r form rate <<<"$case"
  rm -rf $work/small $work/out $work/modules
  "$neuronmm" compress $demo -o $work/small --form $form --method whitened --ratio 0.4 --block 32 --calibration $demo/calibration.txt \
    --allocate uniform --no-measure >/dev/null 2>&1
  "$python" -W ignore examples/gpu_recovery.py $work/small $demo $demo/calibration.txt $work/out --tokens 16384 --cutoff 128 \
    --batch 8 --learning-rate $rate --device cpu
  before=$(divergence $work/small) after=$(divergence $work/out)
  echo "$form: KL $before before, $after after"
  awk -v before="$before" -v after="$after" 'BEGIN {exit !(after > 0 && after < 0.95 * before)}' ||
    { echo "$form: expected a KL below .95 of $before, found $after" >&2; exit 1; }
  cmp <("$neuronmm" inspect $work/small --tensors 2>/dev/null | grep -F weight) <("$neuronmm" inspect $work/out --tensors 2>/dev/null | grep -F weight)
done
if "$python" -W ignore examples/gpu_recovery.py $work/small $demo $demo/calibration.txt $work/out 2>/dev/null; then
  echo "expected an existing output to be refused" >&2
  exit 1
fi
rm -rf $work/small $work/out $work/modules
