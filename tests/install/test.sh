#!/usr/bin/env bash
# Usage: test.sh BUILD WORK. Installs the build into WORK and builds the project in the folder of
# this script against it. Then compares the text that the project's program generates with the text
# of the installed program.
set -euo pipefail
build=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)
model=$here/../../models/demo
prompt="Once upon a time"

rm -rf "$work"
cmake --install "$build" --prefix "$work/prefix" >/dev/null
cmake -S "$here" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build" >/dev/null

expected=$("$work/prefix/bin/neuronmm" generate "$model" --prompt "$prompt" --max-new-tokens 8 --ignore-eos 2>/dev/null)
found=$("$work/build/outside" "$model" "$prompt")
[ -n "$found" ] && [ "$found" = "$expected" ] || { echo "expected: $expected"; echo "found: $found"; exit 1; }
for file in share/man/man1/neuronmm.1 share/bash-completion/completions/neuronmm; do
  [ -s "$work/prefix/$file" ] || { echo "$file is missing or empty"; exit 1; }
done
