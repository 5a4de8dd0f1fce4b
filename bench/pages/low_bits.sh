folder=$WORK/low_bits
# Rounds a model and prints its loss on the test split of WikiText-2.
round() {  # arguments: MODEL NAME WINDOWS OPTION...
  local model=$1 out=$folder/$2 windows=$3
  shift 3
  mkdir -p "$folder"
  [ -d "$out" ] || "$NEURONMM" quantize "$model" -o "$out" "$@"
  "$NEURONMM" perplexity "$out" "$DATA/text/wiki.test.raw" --reference "$model" --context 1024 --limit "$windows"
}
keys() { "$NEURONMM" perplexity "$QWEN" "$DATA/text/wiki.test.raw" --reference "$QWEN" --context 4096 --limit 4 --kv "$1"; }
synthetic() {
  mkdir -p "$folder"
  "$NEURONMM" synthesize --config "$DATA/configs/Llama-3.2-1B.config.json" -o "$folder/l1b"
  for bits in 8 6 4; do
    /usr/bin/time -v "$NEURONMM" quantize "$folder/l1b" -o "$folder/l1b-$bits" --bits $bits --force
  done
}
bundled() {
  mkdir -p "$folder"
  "$NEURONMM" compress models/demo -o "$folder/demo" --ratio 0.2 --block 32 --form uv --force --bits 4 \
    --calibration models/demo/calibration.txt
  "$NEURONMM" perplexity "$folder/demo" models/demo/evaluation.txt --reference models/demo
}

step "8 bits" "SMOL DATA" round "${SMOL:-}" smol8-nearest 24 --bits 8
step "8 bits" "SMOL DATA C4" round "${SMOL:-}" smol8 24 --bits 8 --calibration "${C4:-}"
step "4 bits" "SMOL DATA C4" round "${SMOL:-}" smol4 24 --bits 4 --calibration "${C4:-}"
step "Block types of llama.cpp" "SMOL DATA C4 LLAMA" bench/bench_gguf_out.py "${SMOL:-}" "${C4:-}" \
  "${DATA:-}/text/wiki.test.raw" --llama "${LLAMA:-}" --types Q4_0,Q4_K --tokens 16384 --limit 24 --context 512 \
  --work "$folder"
for format in int8 bf16; do
  step "Keys and values" "QWEN DATA" keys $format
done
for bits in 4 6 8 16; do
  step "The table and the head" "QWEN DATA C4" round "${QWEN:-}" qwen4-table$bits 4 --bits 4 --embedding-bits $bits \
    --calibration "${C4:-}" --calibration-tokens 16384
done
step "Time and memory" "DATA" synthetic
step "Compressed models" "" bundled
