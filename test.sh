#!/usr/bin/env bash
# Installs what is missing, then: format check; a clang build with ASan and UBSan, all tests in it and a short fuzz of
# each parser; a g++ release build and all tests in it. Exits non-zero at the first failure.
#   ./test.sh --quick     only the release build and its tests
#   ./test.sh --aarch64   only what concerns 64-bit ARM: a cross build; the kernels' tests and the program under QEMU
set -euo pipefail
cd "$(dirname "$0")"

quick=false
case "${1:-}" in
  "") ;;
  --quick) quick=true ;;
  --aarch64) exec tools/test_aarch64.sh ;;
  *) echo "usage: ./test.sh [--quick|--aarch64]" >&2; exit 2 ;;
esac
readonly fuzz_seconds=30

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

if [ "$quick" = false ]; then
  step "format"
  git ls-files -z -- '*.cc' '*.h' | xargs -0 clang-format --dry-run -Werror

  step "clang and sanitizers: build and tests"
  cmake --preset dev >/dev/null
  cmake --build --preset dev
  ctest --preset dev -j "$(nproc)"

  step "fuzzers, side by side for $fuzz_seconds s"
  running=()
  for target in safetensors config tokenizer task_item tuner_cache instructions; do
    fuzz "$target" &
    running+=($!)
  done
  for process in "${running[@]}"; do wait "$process"; done
fi

step "release: build and tests"
cmake --preset release -DNEURONMM_TESTS=ON -DNEURONMM_BENCH=ON >/dev/null
cmake --build --preset release
ctest --preset release -j "$(nproc)"
