#!/usr/bin/env bash
# Shows the main jobs on the bundled model: installs what is missing, builds, and makes models/demo
# smaller in five ways. First come the two that most users want: 4 bits, and the best model within a
# budget of bytes (fit). Then come smaller MLPs and the paper's method. A table says what each way
# costs and gives. The script takes about two minutes after the build.
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
  local bytes
  bytes=$(stat -c %s "$2/model.safetensors")
  table+=$(printf '%-12s %9s %8.4f %9.2f %8.4f %9.2f %9.0f' "$1" "$(awk "BEGIN{printf \"%.2f\", $bytes/1e6}")" \
    "$(json_number "$out/stories.json" kl)" "$(json_number "$out/stories.json" perplexity)" \
    "$(json_number "$out/evaluation.json" kl)" "$(json_number "$out/evaluation.json" perplexity)" \
    "$(json_number "$out/bench.json" decode_tokens_per_s)")$'\n'
  printf '\n--- %s, a sample (greedy):\n' "$1"
  "$program" generate "$2" --prompt "$prompt" --max-new-tokens 60 2>/dev/null | sed "s/^/    /"
}

# Makes a smaller model of models/demo by one command, then measures it.
make() {  # arguments: NAME COMMAND FLAG...
  local name=$1 command=$2 folder
  shift 2
  folder=${name// %/}
  folder=$out/${folder// /-}
  printf '\n$ %s %s models/demo -o %s %s\n' "$program" "$command" "$folder" "$*"
  quietly "$program" "$command" models/demo -o "$folder" --force --calibration models/demo/calibration.txt "$@"
  measure "$name" "$folder"
}

measure dense models/demo
make "4 bits" quantize --bits 4
make "fit 3.5 MB" fit --bytes 3.5M
make "smaller MLPs" compress --ratio 0.2
make "paper 10 %" compress --ratio 0.1 --form uv --method whitened --block 64
make "paper 20 %" compress --ratio 0.2 --form uv --method whitened --block 64

cat <<TEXT

                         ---- stories ----  -- evaluation ---
model          size MB       KL  perplex.       KL  perplex.  tokens/s
$table
What the rows say
  4 bits        all weights of linear layers rounded to 4 bits, by the calibration text
  fit 3.5 MB    the best model of 3.5 MB that a search over shapes and bits finds
  smaller MLPs  a fifth of the MLPs' parameters removed in the default way: fewer
                neurons, narrower inputs and outputs, as far as each pays in each layer
  paper         10 % and 20 % removed as in the paper: each weight W becomes U·V

What the columns say
  size MB     model.safetensors on disk
  stories     on models/demo/stories.txt, a text of the kind that the model was trained on
  evaluation  on models/demo/evaluation.txt, a text of another kind
  KL          how far the predictions are from the dense model's, in nats per token;
              0 is no change
  perplex.    perplexity; lower is better, and the dense model's is the one to reach
  tokens/s    tokens written per second on this machine

No way has seen either text. The folders are in $out. Try one:
  $program generate $out/fit-3.5-MB --prompt "One day, a cat" --temperature 0.7
TEXT
