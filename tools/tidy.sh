#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy over src/ and apps/, or over the named files.
set -euo pipefail
cd "$(dirname "$0")/.."
files=("$@")
[ $# -gt 0 ] || mapfile -t files < <(git ls-files -- 'src/*.cc' 'apps/*.cc')
# clang-tidy needs the flags of each file, and no precompiled headers.
cmake --preset dev -B build/tidy -DCMAKE_UNITY_BUILD=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
printf '%s\0' "${files[@]}" | xargs -0 -n 4 -P "$(nproc)" clang-tidy -p build/tidy --quiet
