#!/usr/bin/env bash
# Tests `neuronmm export --target gguf` with llama-cpp-python and its llama.cpp, which is built from the
# source distribution, and with PyPI's gguf; see gguf_out/gguf_out.py. The bundled model is tested, SmolLM2
# if the test data have it, and the models in $NEURONMM_GGUF_MODELS (separated by spaces). LLAMA_CPP_PYTHON
# may name a folder that has that distribution already.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly work=build/gguf_out release=llama_cpp_python-0.3.36
mkdir -p $work
[ -x $work/venv/bin/python ] || python3 -m venv $work/venv
if ! $work/venv/bin/pip install --quiet gguf==0.19.0 numpy==2.4.6 safetensors==0.8.0 \
  typing-extensions==4.16.0 diskcache==5.6.3 jinja2==3.1.6; then
  echo "skipped: PyPI cannot be reached"
  exit 0
fi
package=${LLAMA_CPP_PYTHON:-$work/$release} source=$package/vendor/llama.cpp
if [ ! -d "$package" ]; then
  $work/venv/bin/pip download --quiet --no-deps --no-binary llama-cpp-python --no-build-isolation \
    --dest $work llama-cpp-python==0.3.36 || { echo "skipped: llama-cpp-python cannot be downloaded"; exit 0; }
  tar xf $work/$release.tar.gz -C $work
fi
# Without GGML_NATIVE=OFF, g++ 12 on a processor with AMX makes kernels that end with an illegal instruction.
cmake -S "$source" -B $work/llama -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=OFF \
  -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF >/dev/null
cmake --build $work/llama --target llama-tokenize llama-completion >/dev/null
smollm2=${NEURONMM_TEST_DATA:-../shared/data}/models/smollm2-135m-instruct
[ -d "$smollm2" ] || smollm2=
export LLAMA_CPP_LIB_PATH=$PWD/$work/llama/bin PYTHONPATH=$package
# shellcheck disable=SC2086
$work/venv/bin/python tests/slow/gguf_out/gguf_out.py build/release/neuronmm $work/llama/bin $work/files \
  models/demo $smollm2 ${NEURONMM_GGUF_MODELS:-}
rm -rf $work/files
