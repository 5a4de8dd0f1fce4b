#!/usr/bin/env bash
# `neuronmm import` against PyPI's gguf package; see gguf_import.py.
set -euo pipefail
cd "$(dirname "$0")/../.."
python3 -m venv build/gguf_venv
build/gguf_venv/bin/pip install --quiet gguf==0.19.0 numpy safetensors==0.8.0
build/gguf_venv/bin/python tests/slow/gguf_import.py build/release/neuronmm build/gguf_import
rm -rf build/gguf_import
