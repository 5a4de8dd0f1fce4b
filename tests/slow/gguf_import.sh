#!/usr/bin/env bash
# Tests `neuronmm import` with PyPI's gguf, tokenizers and transformers; see gguf_import.py and
# gguf_tokenizers.py.
set -euo pipefail
cd "$(dirname "$0")/../.."
python3 -m venv build/gguf_venv
build/gguf_venv/bin/pip install --quiet \
  gguf==0.19.0 numpy==2.4.6 safetensors==0.8.0 tokenizers==0.23.3 transformers==5.23.0
build/gguf_venv/bin/python tests/gguf/make_golden_blocks.py "$RANDOM" 200 > build/golden_blocks.json
NEURONMM_GOLDEN_BLOCKS=build/golden_blocks.json \
  build/release/tests/gguf/gguf_test --gtest_filter='Dequantize.EqualsTheReferenceBitForBit'
rm build/golden_blocks.json
build/gguf_venv/bin/python tests/slow/gguf_import.py build/release/neuronmm build/gguf_import
build/gguf_venv/bin/python tests/slow/gguf_tokenizers.py build/release/neuronmm build/gguf_import
rm -rf build/gguf_import
