#!/usr/bin/env bash
# Tests that 2,000 hostile schemas and regular expressions stay within their budget, and that other
# requests do not notice them. The first part compiles them in one process (hostile_suite.cc). The
# second part sends them to a server, and measures other requests alone and beside them.
#   tests/slow/hostile_formats.sh [MODEL_DIR] [PATTERN_FILE...]
# A pattern file has other regular expressions or schemas, for example of a public collection, a line
# each.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly neuronmm=${NEURONMM:-$PWD/build/release/neuronmm} work=build/hostile_formats count=2000
readonly model=${1:-models/demo} suite=$PWD/build/release/tests/serve/grammar/hostile_suite
shift || true
mkdir -p $work
ninja -C build/release hostile_suite

printf '== in one process\n'
"$suite" "$model" $count "$@"

printf '== over HTTP\n'
"$suite" --print $count "$@" >$work/formats.jsonl
rm -f $work/serve.log
"$neuronmm" serve "$model" --port 0 >$work/serve.log 2>&1 &
readonly server=$!
trap 'kill $server 2>/dev/null' EXIT
for _ in {1..600}; do
  grep -qs 'is ready' $work/serve.log && break
  sleep 0.1
done
python3 tests/slow/hostile_formats/beside.py "$(grep -oE 'http://[0-9.:]+' $work/serve.log | head -1)" $work/formats.jsonl
printf 'largest memory of the server: %s\n' "$(grep VmHWM /proc/$server/status)"
