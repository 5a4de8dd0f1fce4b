#!/usr/bin/env bash
# Usage: test.sh BUILD WORK. Installs the build into WORK and uses it as a stranger does. The project in the folder of this
# script knows only the prefix, and its program generates what the installed program generates. Installed headers
# include only each other and headers of libraries that docs/reference/cpp_api.md names.
set -euo pipefail
build=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)
model=$here/../../models/demo
page=$here/../../docs/reference/cpp_api.md
prompt="Once upon a time"

rm -rf "$work"
cmake --install "$build" --prefix "$work/prefix" >/dev/null

include=$work/prefix/include/neuronmm
(cd "$include" && find . -name '*.h' | sed 's|^\./||' | sort) >"$work/installed"
grep -o '^| `[a-z_/]*\.h`' "$page" | tr -d '|` ' | sort >"$work/promised"
[ -s "$work/promised" ] || { echo "$page: expected a table of headers, found none"; exit 1; }
missing=$(comm -23 "$work/promised" "$work/installed")
[ -z "$missing" ] || { echo "promised in $page, but not installed: $missing"; exit 1; }
# -M writes the names of all headers that the compiler reads.
sed 's|.*|#include "&"|' "$work/installed" | g++ -std=c++20 -I "$include" -x c++ -M - >"$work/read" ||
  { echo "an installed header includes one that is missing"; exit 1; }
found=$(tr ' ' '\n' <"$work/read" | grep -E '/(boost|openssl|prometheus|mpi|torch)[./]' | head -n 1) || true
[ -z "$found" ] || { echo "an installed header includes $found, which users need not have"; exit 1; }

# Whatever else there is on this machine, a stranger's may lack.
absent=()
for package in Boost OpenSSL prometheus-cpp MPI Torch; do absent+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"); done
cmake -S "$here" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" \
  "${absent[@]}" >/dev/null 2>&1
cmake --build "$work/build" >/dev/null

expected=$("$work/prefix/bin/neuronmm" generate "$model" --prompt "$prompt" --max-new-tokens 8 --ignore-eos 2>/dev/null)
found=$("$work/build/outside" "$model" "$prompt")
[ -n "$found" ] && [ "$found" = "$expected" ] || { echo "expected: $expected"; echo "found: $found"; exit 1; }
for file in share/man/man1/neuronmm.1 share/bash-completion/completions/neuronmm \
    share/neuronmm/models/demo/{calibration,evaluation,stories}.txt \
    share/neuronmm/models/demo/{README.md,model.safetensors} share/neuronmm/examples/kernel/README.md; do
  [ -s "$work/prefix/$file" ] || { echo "$file is missing or empty"; exit 1; }
done

# Files that a build of the target neuronmm alone does not make are left out, and the rest is
# installed. This is what cmake --install does after ./demo.sh.
sed -e "s|$build/share/|$work/not_built/|g" "$build/cmake_install.cmake" >"$work/install_part.cmake"
grep -q "$work/not_built/neuronmm.1" "$work/install_part.cmake"
cmake -D CMAKE_INSTALL_PREFIX="$work/part" -P "$work/install_part.cmake" >/dev/null ||
  { echo "expected that files that were not built are left out"; exit 1; }
[ -x "$work/part/bin/neuronmm" ] && [ ! -e "$work/part/share/man/man1/neuronmm.1" ]

# `demo` copies what is installed, and nothing else.
"$work/prefix/bin/neuronmm" demo -o "$work/try" >/dev/null
for folder in models/demo examples/kernel; do
  diff -r "$work/prefix/share/neuronmm/$folder" "$work/try/$folder" || { echo "expected a copy of $folder"; exit 1; }
done

# `nki` finds its Python files after an installation. A program that is moved alone says where it
# looked for them. Without NumPy no kernel can be run.
if python3 -c 'import numpy' 2>/dev/null; then
  cat >"$work/kernel.py" <<'PYTHON'
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def copy(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.dma_copy(dst=y, src=t)
    return y
PYTHON
  run=(nki "$work/kernel.py:copy" --arg "x=bf16[128,512]")
  "$work/prefix/bin/neuronmm" "${run[@]}" >"$work/nki" || { echo "an installed program cannot run nki"; exit 1; }
  grep -q latency "$work/nki"
  mkdir -p "$work/alone"
  cp "$work/prefix/bin/neuronmm" "$work/alone"
  ! "$work/alone/neuronmm" "${run[@]}" >"$work/nki" 2>&1 || { echo "expected that a moved program is refused"; exit 1; }
  for words in "nki/run.py" "$work/share/neuronmm/python" "$work/alone/python_packages" "cmake --install"; do
    grep -qF "$words" "$work/nki" || { echo "expected \"$words\" in: $(cat "$work/nki")"; exit 1; }
  done
fi
