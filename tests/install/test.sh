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
for file in share/man/man1/neuronmm.1 share/bash-completion/completions/neuronmm; do
  [ -s "$work/prefix/$file" ] || { echo "$file is missing or empty"; exit 1; }
done
