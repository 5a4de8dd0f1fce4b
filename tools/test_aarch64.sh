#!/usr/bin/env bash
# Implements ./test.sh --aarch64: cross-compiles for 64-bit ARM and runs tests under QEMU's
# user-mode emulation. These are the tests of base, ops, cpu, io, text and model on QEMU's `max`
# CPU, a check of which kernels are chosen on smaller CPUs, and the program.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }
emulated() { QEMU_CPU=$1 qemu-aarch64-static -L build/aarch64-sysroot "${@:2}"; }

step "packages"
tools/install_dependencies.sh aarch64
tools/aarch64_sysroot.sh

step "aarch64: cross build"
cmake --preset aarch64 >/dev/null
cmake --build --preset aarch64

step "aarch64: tests on QEMU's max CPU"
QEMU_CPU=max ctest --preset aarch64 -j "$(nproc)"

step "aarch64: which kernels other CPUs get"
readonly test_cpu=build/aarch64/tests/cpu/test_cpu neuronmm=build/aarch64/neuronmm
readonly dispatch=--gtest_filter='Kernels.*:*/Dispatch.*:*/Linear.Int8Factors/*'
# The tests must find exactly the instruction sets SETS on an emulated CPU, and pass there.
expect_sets() {  # arguments: CPU SETS
  local found
  found=$(emulated "$1" $test_cpu --gtest_list_tests "$dispatch" | sed -n 's/^ *TakesTheForced.*\/\(NEON[^ ]*\).*/\1/p')
  echo "$1:" $found
  [ "$(echo $found)" = "$2" ] || { echo "expected $2" >&2; exit 1; }
  emulated "$1" $test_cpu --gtest_brief=1 "$dispatch"
}
expect_sets cortex-a72 "NEON"
expect_sets neoverse-n1 "NEON NEON_int8"
expect_sets a64fx "NEON"
for sve in sve=off sve-default-vector-length=16 sve-default-vector-length=32; do
  expect_sets max,$sve "NEON NEON_int8 NEON_int8_bf16"
done

step "aarch64: the program"
for cpu in cortex-a72 max; do
  emulated $cpu $neuronmm generate models/demo --prompt "Once upon a time" --max-new-tokens 24 --temperature 0
done
