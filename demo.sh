#!/usr/bin/env bash
# Shows the main job on the bundled model: installs what is missing, builds, compresses models/demo
# by 10 % and 20 % in three ways, and prints what each way costs and gives. Takes under two minutes
# after the build.
set -euo pipefail
cd "$(dirname "$0")"

readonly out=build/demo
readonly program=build/neuronmm
readonly prompt="Once upon a time, there was a little dog named Max."

tools/install_dependencies.sh build
cmake -B build >/dev/null
cmake --build build --target neuronmm -j "$(nproc)"
mkdir -p "$out"

# Prints the first number that a JSON file has under a key.
json_number() {  # arguments: FILE KEY
  sed -n "s/.*\"$2\": *\([0-9.eE+-]*\).*/\1/p" "$1" | head -n 1
}

# Runs a command and prints its output only if it fails.
quietly() {  # arguments: COMMAND...
  "$@" &>"$out/log" || { cat "$out/log" >&2; exit 1; }
}

table=""
measure() {  # arguments: NAME FOLDER
  local text
  for text in stories evaluation; do
    quietly "$program" perplexity "$2" "models/demo/$text.txt" --reference models/demo --json "$out/$text.json"
  done
  quietly "$program" bench "$2" --prompt-tokens 64 --new-tokens 64 --runs 5 --json "$out/bench.json"
  local bytes kept
  bytes=$(stat -c %s "$2/model.safetensors")
  kept=$("$program" inspect "$2" | awk -v dense="$dense_mlp" '/MLP parameters/ {printf "%.4f", $3 / dense}')
  table+=$(printf '%-16s %9s %9s %8.4f %9.2f %8.4f %9.2f %9.0f' "$1" "$kept" "$(awk "BEGIN{printf \"%.2f\", $bytes/1e6}")" \
    "$(json_number "$out/stories.json" kl)" "$(json_number "$out/stories.json" perplexity)" \
    "$(json_number "$out/evaluation.json" kl)" "$(json_number "$out/evaluation.json" perplexity)" \
    "$(json_number "$out/bench.json" decode_tokens_per_s)")$'\n'
  printf '\n--- %s, a sample (greedy):\n' "$1"
  "$program" generate "$2" --prompt "$prompt" --max-new-tokens 60 2>/dev/null | sed "s/^/    /"
}

dense_mlp=$("$program" inspect models/demo | awk '/MLP parameters/ {print $3}')
measure dense models/demo
for ratio in 0.1 0.2; do
  for way in "svd --form uv --method svd --block 64" "whitened --form uv --method whitened --block 64" "auto"; do
    read -r name flags <<<"$way"
    # shellcheck disable=SC2086  # the flags of a way are several words
    quietly "$program" compress models/demo -o "$out/$name-$ratio" --ratio "$ratio" $flags --force \
      --calibration models/demo/calibration.txt
    measure "$name $ratio" "$out/$name-$ratio"
  done
done

cat <<TEXT

                                        ---- stories ----  -- evaluation ---
model             MLP kept   size MB       KL  perplex.       KL  perplex.  tokens/s
$table
What the columns say
  model       the way, and the share of the MLP parameters that was asked to be removed:
              svd       W by U·V with what is largest in W; never looks at a text,
              whitened  the same with what matters to the layer's outputs on models/demo/calibration.txt (the paper's),
              auto      the default: fewer neurons, narrower inputs and outputs, as far as each pays in each layer.
  MLP kept    the share of MLP parameters really kept: sizes are multiples of --block (64, and 32 for auto).
  size MB     model.safetensors on disk.
  stories     on models/demo/stories.txt, of the kind that the model was trained on;
  evaluation  on models/demo/evaluation.txt, of another kind. No compression has seen either.
  KL          how far the predictions are from the dense model's, nats per token: 0 is no change.
  perplex.    perplexity; lower is better, dense is what to compare with.
  tokens/s    decoded tokens per second (after a prompt of 64 tokens, 64 new ones) on this machine.

The folders are in $out. Try one:
  $program generate $out/auto-0.1 --prompt "One day, a cat" --temperature 0.7
TEXT
