#!/usr/bin/env bash
# Tests the Python package as `pip install` builds it. The script runs the package's tests against
# the program that comes with it, checks its types, and checks what its source archive holds.
# NEURONMM_TEST_DATA is the folder of test data. Tests whose data are absent there are skipped.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly venv=build/python_venv
[ -x $venv/bin/python ] || python3 -m venv $venv
$venv/bin/pip install --quiet nanobind==2.9.2 scikit-build-core==0.11.6 build==1.3.0 numpy==2.3.4 pytest==8.4.2 mypy==1.18.2
$venv/bin/pip install --quiet --no-build-isolation --force-reinstall --no-deps \
  --config-settings build-dir=build/python --config-settings cmake.define.NEURONMM_WERROR=ON .

$venv/bin/mypy --package neuronmm
$venv/bin/mypy examples/python
head -c 8000 models/demo/calibration.txt >build/python_text.txt
$venv/bin/python examples/python/compress_and_chat.py models/demo build/python_small build/python_text.txt build/python_text.txt
(cd tests/python && "$OLDPWD/$venv/bin/mypy" --config-file ../../pyproject.toml .)
$venv/bin/python -m pytest --quiet tests/python

# The program of the wheel must find the packages that run kernels and the bundled model.
rm -rf build/python_demo
$venv/bin/neuronmm demo -o build/python_demo
[ -s build/python_demo/models/demo/calibration.txt ]
[ -s "$(echo $venv/lib/python3*/site-packages/neuronmm/share/neuronmm/python/nki/run.py)" ]

# The source archive must hold everything that a build of the package needs, the bundled model of 14 MB
# included, but no other model, test or build folder.
rm -rf build/python_sdist
$venv/bin/python -m build --sdist --no-isolation --outdir build/python_sdist . >/dev/null
archive=$(echo build/python_sdist/*.tar.gz)
if tar -tzf "$archive" | grep -E '/(tests|fuzz|build)/|\.safetensors$' | grep -v /models/demo/; then exit 1; fi
[ "$(stat -c %s "$archive")" -lt 16000000 ]
