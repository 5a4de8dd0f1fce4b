#!/usr/bin/env bash
# clang-tidy over src/ and apps/ with the list of .clang-tidy, or over the files that are named.
set -euo pipefail
cd "$(dirname "$0")/.."
files=("$@")
[ $# -gt 0 ] || mapfile -t files < <(git ls-files -- 'src/*.cc' 'apps/*.cc' ':!src/finetune' ':!apps/model/finetune_main.cc')
# It wants each file's own flags, and none of the compiled headers.
cmake --preset dev -B build/tidy -DCMAKE_UNITY_BUILD=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
printf '%s\0' "${files[@]}" | xargs -0 -n 4 -P "$(nproc)" clang-tidy -p build/tidy --quiet
