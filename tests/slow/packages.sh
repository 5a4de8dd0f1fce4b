#!/usr/bin/env bash
# Tests the packages of packaging/build.sh as a stranger has them. Each is installed into the smallest
# Debian 12 that can hold it, which has no compiler and no library of ours, and runs the quick starts of
# the README there. Needs root and Debian's mirror.
#
#   NEURONMM_DIST       a folder of packages to test; without it they are built
#   NEURONMM_TEST_GGUF  a GGUF file for quick start 1, which is skipped without it
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
readonly work=$root/build/packages here=$root/tests/slow/packages
gguf=${NEURONMM_TEST_GGUF:-}
fail() { echo "$*" >&2; exit 1; }

if [ "$(id -u)" -ne 0 ]; then
  echo "skipped: making an empty Debian needs root"
  exit 0
fi
tools/install_dependencies.sh roots
mkdir -p "$work"
python3 "$here/read_quick_starts.py" >"$work/commands"
dist=${NEURONMM_DIST:-build/dist}
[ -n "${NEURONMM_DIST:-}" ] || packaging/build.sh --deb-build build/release --python /usr/bin/python3

# Makes an empty Debian of the release SUITE in the folder $work/NAME, with the packages LIST.
make_root() {  # arguments: NAME SUITE LIST
  rm -rf "${work:?}/$1"
  mmdebstrap --quiet --variant=minbase --include="$3" "$2" "$work/$1"
  cp /etc/resolv.conf "$work/$1/etc/resolv.conf"
  mkdir "$work/$1/test"
  cp "$work/commands" "$here/quick_starts.sh" "$work/$1/test"
  [ -z "$gguf" ] || cp "$gguf" "$work/$1/test/model.gguf"
}

# Runs a command in that Debian, which sees nothing of this machine's variables and processes.
inside() {  # arguments: NAME COMMAND...
  local name=$1
  shift
  unshare --mount --pid --fork bash -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$work/$name" \
    /usr/bin/env -i HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive \
    PATH=/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

expect_empty() {  # arguments: NAME
  local found
  found=$(find "$work/$1" -xdev \( -name 'cc1*' -o -name '*-gcc*' -o -name 'libopenblas*' \) -print -quit)
  [ -z "$found" ] || fail "expected an empty root, found $found"
}

quick_starts() {  # arguments: NAME
  local model=()
  [ -z "$gguf" ] || model=(/test/model.gguf)
  inside "$1" bash /test/quick_starts.sh /test/commands "${model[@]}"
}

test_deb() {
  local package version
  package=$(ls "$dist"/neuronmm_*.deb)
  echo "== $(basename "$package"): $(dpkg-deb -f "$package" Depends)"
  make_root deb bookworm ca-certificates
  expect_empty deb
  cp "$package" "$work/deb/test/neuronmm.deb"
  inside deb apt-get update -qq
  inside deb apt-get install -y -qq --no-install-recommends /test/neuronmm.deb >/dev/null
  version=$(dpkg-deb -f "$package" Version)
  [ "$(inside deb neuronmm --version)" = "neuronmm ${version%%-*}" ]
  quick_starts deb
  for file in man/man1/neuronmm.1 bash-completion/completions/neuronmm neuronmm/models/demo/README.md \
    doc/neuronmm/copyright; do
    [ -s "$work/deb/usr/share/$file" ] || fail "expected /usr/share/$file in the package"
  done
}

# The program finds no library of this Debian except those that every Linux with Python has.
expect_own_libraries() {
  inside wheel bash -c 'ldd /venv/lib/python3*/site-packages/neuronmm/bin/neuronmm
    ldd /venv/lib/python3*/site-packages/neuronmm/lib/neuronmm/*.so' >"$work/libraries"
  local others
  others=$(grep 'not found' "$work/libraries"; sed -nE 's/.* => (.*) \(.*/\1/p' "$work/libraries" |
    grep -v '^/venv/' | grep -vE '/lib(c|m|stdc\+\+|gcc_s|dl|rt|pthread|z)\.so') || true
  [ -z "$others" ] || fail "expected libraries of the wheel, found $others"
}

# A processor of 2013 has AVX2 and nothing newer. QEMU computes every instruction, so the model that is
# factorized there is tiny. The factors have the bits that OpenBLAS's kernels for that processor give
# here. QEMU 7.2 misaligns the stack of signal handlers: a time limit would end the program with signal 11.
test_haswell() {
  cp /usr/bin/qemu-x86_64-static "$work/wheel/test/qemu"
  python3 -c 'import json, sys
config = json.load(open(sys.argv[1]))
config.update(hidden_size=128, intermediate_size=256, num_hidden_layers=1, num_attention_heads=2,
              num_key_value_heads=1, vocab_size=64, bos_token_id=1, eos_token_id=2)
json.dump(config, sys.stdout)' "$root/models/demo/config.json" >"$work/wheel/test/tiny.json"
  inside wheel bash -ec '
    cd /root && neuronmm demo -o haswell && cd haswell
    program=$(echo /venv/lib/python3*/site-packages/neuronmm/bin/neuronmm)
    /test/qemu -cpu Haswell "$program" generate models/demo "One day, a cat" --max-new-tokens 4
    neuronmm synthesize --config /test/tiny.json -o tiny
    options="--ratio 0.2 --method svd --form uv"
    /test/qemu -cpu Haswell "$program" compress tiny -o emulated $options
    OPENBLAS_CORETYPE=Haswell neuronmm compress tiny -o native $options
    cmp emulated/model.safetensors native/model.safetensors' 2>"$work/errors" ||
    { cat "$work/errors"; fail "expected that the wheel runs with AVX2 only"; }
}

# Tests a wheel with the Python of a release of Debian.
test_wheel() {  # arguments: WHEEL SUITE PYTHON
  local wheel=$1 size
  size=$(python3 -c 'import sys, zipfile
print(sum(i.compress_size for i in zipfile.ZipFile(sys.argv[1]).infolist() if not i.filename.endswith("demo/model.safetensors")))' "$wheel")
  echo "== $(basename "$wheel"): $size bytes without the bundled model"
  [ "$size" -le 20000000 ] || fail "expected at most 20,000,000 bytes without the bundled model, found $size"
  make_root wheel "$2" ca-certificates,python3,python3-venv
  expect_empty wheel
  mkdir "$work/wheel/test/wheels"
  python3 -m pip download --quiet --dest "$work/wheel/test/wheels" --only-binary :all: --python-version "$3" 'numpy==2.3.4'
  cp "$wheel" "$work/wheel/test/wheels"
  inside wheel python3 -m venv /venv
  inside wheel pip install --quiet --no-index --find-links /test/wheels neuronmm
  inside wheel neuronmm --version
  expect_own_libraries
  quick_starts wheel
  inside wheel python3 -c 'import neuronmm, pathlib
demo = pathlib.Path(neuronmm.__file__).parent / "share/neuronmm/models/demo"
print(neuronmm.LLM(demo).generate("One day")[0].outputs[0].text)
neuronmm.compress(demo, "/root/small", ratio=0.2, method="svd")'
  # Outside the environment, a kernel runs with the Python of the environment.
  inside wheel env PATH=/usr/bin:/bin bash -c 'cd /root && /venv/bin/neuronmm demo -o kernels &&
    /venv/bin/neuronmm nki kernels/examples/kernel/step3_correct.py:matmul --arg "lhsT=bf16[1024,1024]" --arg "rhs=bf16[1024,2048]"' |
    grep -q latency
  for file in man/man1/neuronmm.1 bash-completion/completions/neuronmm; do
    [ -s "$work/wheel/venv/share/$file" ] || fail "expected share/$file in the wheel"
  done
  test_haswell
}

# One wheel of the stable ABI runs on every Python from 3.12 on that is installed here.
test_stable_abi() {
  local python wheel found=false
  wheel=$(ls "$dist"/neuronmm-*-cp312-abi3-*.whl 2>/dev/null) || true
  for python in python3.12 python3.13 python3.14; do
    "$python" -c '' 2>/dev/null || continue
    if [ -z "$wheel" ]; then
      packaging/build.sh --wheel --python "$python"
      wheel=$(ls build/dist/neuronmm-*-cp312-abi3-*.whl)
    fi
    found=true
    "$python" -m venv --clear "$work/venv_$python"
    "$work/venv_$python/bin/pip" install --quiet "$wheel"
    env -i "$work/venv_$python/bin/python" -c 'import neuronmm, sys
print(sys.version.split()[0], neuronmm.LLM(sys.argv[1]).generate("One day")[0].outputs[0].text[:20])' "$root/models/demo"
    env -i "$work/venv_$python/bin/neuronmm" --version
  done
  $found || echo "skipped: the wheel of the stable ABI: there is no Python 3.12 or newer"
}

# Debian 12 has Python 3.11. Debian 13 has 3.13, which the wheel of the stable ABI serves.
test_wheels() {
  local wheel found=false
  for wheel in "$dist"/neuronmm-*.whl; do
    case "$wheel" in
      *-cp311-cp311-*) test_wheel "$wheel" bookworm 3.11 ;;
      *-cp312-abi3-*) test_wheel "$wheel" trixie 3.13 ;;
      *) continue ;;
    esac
    found=true
  done
  $found || fail "$dist: expected a wheel of CPython 3.11 or of the stable ABI, found none"
}

test_deb
test_stable_abi
test_wheels
