#!/usr/bin/env bash
# clang-tidy over src/ and apps/ with the list of .clang-tidy, or over the files that are named. It reads the flags of the
# clang build (cmake --preset dev).
set -euo pipefail
cd "$(dirname "$0")/.."
files=("$@")
[ $# -gt 0 ] || mapfile -t files < <(git ls-files -- 'src/*.cc' 'apps/*.cc' ':!src/finetune' ':!apps/model/finetune_main.cc')
printf '%s\0' "${files[@]}" | xargs -0 -n 4 -P "$(nproc)" clang-tidy -p build/dev --quiet
