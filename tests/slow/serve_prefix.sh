#!/usr/bin/env bash
# Tests that the prefix cache shortens the time to the first token. A prompt of 2,000 tokens is sent
# twice with different ends, as a stream over HTTP. The second time to the first token must be at
# most a tenth of the first one. The test takes the median of seven such pairs, each with its own
# prefix.
#   tests/slow/serve_prefix.sh [MODEL_DIR]
# Without MODEL_DIR the model has random weights and the shape of the bundled model, but 16 layers
# and 4,096 positions.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly neuronmm=${NEURONMM:-$PWD/build/release/neuronmm} work=build/serve_prefix
rm -rf $work
mkdir -p $work
model=${1:-}
if [ -z "$model" ]; then
  model=$work/model
  python3 - models/demo/config.json $work/config.json <<'PY'
import json, pathlib, sys
config = json.loads(pathlib.Path(sys.argv[1]).read_text()) | {"max_position_embeddings": 4096, "num_hidden_layers": 16}
pathlib.Path(sys.argv[2]).write_text(json.dumps(config))
PY
  "$neuronmm" synthesize --config $work/config.json -o $model >/dev/null
  cp models/demo/tokenizer*.json $model
fi
rm -f $work/serve.log
"$neuronmm" serve "$model" --port 0 >$work/serve.log 2>&1 &
readonly server=$!
trap 'kill $server 2>/dev/null' EXIT
for _ in {1..600}; do
  grep -qs 'is ready' $work/serve.log && break
  sleep 0.1
done

PYTHONPATH=tools python3 - "$(grep -oE 'http://[0-9.:]+' $work/serve.log | head -1)" <<'PY'
import statistics, sys
from load_completions import random_ids, stream_completion

PREFIX, END = 2000, 16


def first_token(prompt):
    """Returns the seconds to the first text, and how many tokens of the prompt were cached already."""
    answer = stream_completion(sys.argv[1], {"prompt": prompt, "max_tokens": 2, "temperature": 0, "ignore_eos": True})
    assert answer.usage["prompt_tokens"] == PREFIX + END, answer.usage
    return answer.first_seconds, answer.usage["prompt_tokens_details"]["cached_tokens"]


first_token(random_ids(PREFIX + END))
ratios = []
for _ in range(7):
    prefix = random_ids(PREFIX)
    (cold, nothing), (warm, cached) = first_token(prefix + random_ids(END)), first_token(prefix + random_ids(END))
    assert nothing < 4 and PREFIX <= cached < PREFIX + 4, (nothing, cached)  # random ids may be equal
    ratios.append(warm / cold)
    print(f"first token after {1e3 * cold:.1f} ms, then {1e3 * warm:.1f} ms: {100 * ratios[-1]:.1f} %")
median = statistics.median(ratios)
print(f"median {100 * median:.1f} %, asked at most 10 %")
sys.exit(median > 0.10)
PY
