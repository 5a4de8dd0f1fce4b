#!/usr/bin/env bash
# Installs what is missing, checks the format, makes a release build with g++ and runs its tests,
# including whole commands. Exits with an error at the first failure.
#
#   ./test.sh --quick     Builds only the program and the unit tests, and runs these tests.
#   ./test.sh --slow      Also runs everything that takes longer: fuzzers and all tests with clang,
#                         ASan and UBSan, the tests labelled `long`, the scripts of tests/slow,
#                         clang-tidy, and --aarch64. Also builds every file by itself, with the
#                         benchmark programs. At the end, for a day, a fault at every system call.
#   ./test.sh --aarch64   Only cross-compiles for 64-bit ARM, and runs the kernels' tests and the
#                         program in QEMU.
set -euo pipefail
cd "$(dirname "$0")"

mode=${1:-}
case "$mode" in
  "" | --quick | --slow) ;;
  --aarch64) exec tools/test_aarch64.sh ;;
  *) echo "usage: ./test.sh [--quick|--slow|--aarch64]" >&2; exit 2 ;;
esac
jobs=$(nproc)
readonly mode jobs fuzz_seconds=30

step() { printf '\n== %s\n' "$*"; }

fuzz() {
  local corpus=build/dev/corpus/$1 log=build/dev/fuzz_$1.log
  mkdir -p "$corpus"
  build/dev/fuzz/fuzz_"$1" -max_total_time=$fuzz_seconds -timeout=10 -rss_limit_mb=2048 -verbosity=0 \
    -print_final_stats=1 -artifact_prefix=build/dev/ "$corpus" "fuzz/corpus/$1" &>"$log" ||
    { cat "$log" >&2; return 1; }
  echo "$1: $(grep number_of_executed_units "$log")"
}

step "packages"
tools/install_dependencies.sh test
[ "$mode" != --slow ] || tools/install_dependencies.sh python

if [ "$mode" = --quick ]; then
  step "release: the program and the unit tests"
  cmake --preset release >/dev/null
  cmake --build --preset quick
  ctest --preset quick -j "$jobs"
  exit
fi

step "format"
git ls-files -z -- '*.cc' '*.h' | xargs -0 clang-format --dry-run -Werror

if [ "$mode" = --slow ]; then
  step "clang and sanitizers: the fuzzers"
  cmake --preset dev >/dev/null
  cmake --build --preset fuzzers

  step "fuzzers, side by side for $fuzz_seconds s"
  running=()
  for source in fuzz/fuzz_*.cc; do
    target=${source#fuzz/fuzz_}
    fuzz "${target%.cc}" &
    running+=($!)
  done
  for process in "${running[@]}"; do wait "$process"; done

  step "clang and sanitizers: all tests but the longest"
  cmake --build --preset dev
  ctest --preset dev -j "$jobs"

  step "clang-tidy"
  tools/tidy.sh

  step "every file includes what it uses: a build file by file"
  cmake --preset release -B build/headers -DCMAKE_UNITY_BUILD=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
    -DNEURONMM_BENCH=ON >/dev/null
  cmake --build build/headers
fi

step "release: build and tests"
cmake --preset release >/dev/null
cmake --build --preset release
if [ "$mode" = --slow ]; then
  for script in tests/slow/*.sh; do
    [ -e "$script" ] || continue
    step "$script"
    "$script"
  done
  step "release: all tests, those that take long included"
  ctest --preset all -E '^faults[.]' -j "$jobs"

  step "64-bit ARM"
  tools/test_aarch64.sh

  step "release: every fault of every command that writes, which takes a day"
  # The folders of these tests are small, and a disk would make each run three times as long.
  TMPDIR=/dev/shm NEURONMM_FAULTS=all ctest --preset all -R '^faults[.]' -j "$jobs"
else
  # One test more than there are cores, because many wait for a launcher or a timer.
  ctest --preset release -j "$((jobs + 1))"
fi
