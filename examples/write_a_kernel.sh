#!/usr/bin/env bash
# Times NKI kernels on a simulated Trainium and compares their results with a reference. No Trainium
# is used.
#
#   examples/write_a_kernel.sh [KERNEL.py:FUNCTION REFERENCE ARGUMENT...]
#
# An ARGUMENT is a tensor such as x=bf16[1024,2048], and the REFERENCE an expression over the
# arguments. Without arguments the script times the steps of examples/kernel that are correct.
set -euo pipefail
# shellcheck source=examples/setup.sh
. "$(dirname "$0")/setup.sh"

if [ $# -gt 0 ]; then
  [ $# -ge 3 ] || usage
  kernel=$1 reference=$2
  shift 2
  exec "$neuronmm" nki "$kernel" "${@/#/--arg=}" --ref "$reference"
fi
for step in step3_correct step4_load_once step5_tuned; do
  "$neuronmm" nki "$root/examples/kernel/$step.py:matmul" --ref "lhsT.T @ rhs" \
    --arg "lhsT=bf16[1024,1024]" --arg "rhs=bf16[1024,2048]" | grep -E '^simulated|matmul$|^  latency|error'
done
