folder=$WORK/fit
# Runs fit for one budget and prints the loss of the result.
budget() {  # arguments: MODEL NAME BYTES
  mkdir -p "$folder"
  "$NEURONMM" fit "$1" -o "$folder/$2-$3" --bytes "$3" --sensitivities "$folder/$2" --calibration "$C4"
  "$NEURONMM" perplexity "$folder/$2-$3" "$DATA/text/wiki.test.raw" --reference "$1" --context 1024 --limit 24
}
synthetic() {
  mkdir -p "$folder"
  "$NEURONMM" synthesize --config "$DATA/configs/Llama-3.2-1B.config.json" -o "$folder/l1b"
  "$NEURONMM" fit "$folder/l1b" -o "$folder/l1b-900M" --bytes 900M --calibration "$C4"
}

for bytes in 80.1M 83.5M 103.3M; do
  step "Loss at equal size" "SMOL DATA C4" budget "${SMOL:-}" smol $bytes
done
step "A model whose table is large" "QWEN DATA C4" budget "${QWEN:-}" qwen 420M
step "A model of 1B" "DATA C4" synthetic
