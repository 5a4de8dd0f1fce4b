# Finds the program, for the scripts of this folder. It sets `root`, `neuronmm` and `work`, and makes the
# folder `work`.
# shellcheck shell=bash disable=SC2034  # the scripts use the variables
root=$(dirname "${BASH_SOURCE[0]}")/..
neuronmm=${NEURONMM:-$root/build/neuronmm}
work=${WORK:-$root/build/examples}
command -v "$neuronmm" >/dev/null ||
  { echo "$neuronmm: no such program; run ./demo.sh to build it, or name an installed one in NEURONMM" >&2; exit 1; }
mkdir -p "$work"
# Prints the first lines of the script, which explain its arguments, and ends it.
usage() { sed -n '2,/^set /s/^# \?//p' "$0" >&2; exit 2; }
