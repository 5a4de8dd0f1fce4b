folder=$WORK/low_bits
# Rounds a model, unless that is done, and prints its loss.
round() {  # arguments: MODEL NAME WINDOWS OPTION...
  [ -d "$folder/$2" ] || "$NEURONMM" quantize "$1" -o "$folder/$2" "${@:4}"
  losses "$folder/$2" "$1" "$3"
}
keys() {  # arguments: FORMAT
  "$NEURONMM" perplexity "$QWEN_BF16" "$DATA/text/wiki.test.raw" --reference "$QWEN_BF16" --context 4096 --limit 4 --kv "$1"
}
synthetic() {
  local dense
  dense=$(synthetic_1b)
  for bits in 8 4; do
    /usr/bin/time -v "$NEURONMM" quantize "$dense" -o "$folder/l1b-$bits" --bits $bits --force
  done
}
demo_loss() { "$NEURONMM" perplexity "$1" models/demo/evaluation.txt --reference models/demo; }
bundled() {  # arguments: FORM
  local options=(--ratio 0.2 --block 32 --form "$1" --reconstruct off --calibration models/demo/calibration.txt --force)
  "$NEURONMM" compress models/demo -o "$folder/demo" "${options[@]}"
  demo_loss "$folder/demo"
  "$NEURONMM" quantize "$folder/demo" -o "$folder/demo4" --bits 4 --force
  demo_loss "$folder/demo4"
  "$NEURONMM" compress models/demo -o "$folder/demo4" "${options[@]}" --bits 4
  demo_loss "$folder/demo4"
}

step "8 bits" "SMOL DATA C4_TEST" round "${SMOL:-}" smol8-nearest 24 --bits 8
step "8 bits" "SMOL DATA C4 C4_TEST" round "${SMOL:-}" smol8 24 --bits 8 --calibration "${C4:-}"
step "4 bits" "SMOL_OFF_GRID DATA C4_TEST" round "${SMOL_OFF_GRID:-}" smol4-nearest 24 --bits 4
for group in 16 32; do
  step "4 bits" "SMOL_OFF_GRID DATA C4 C4_TEST" round "${SMOL_OFF_GRID:-}" smol4-$group 24 --bits 4 --group $group \
    --calibration "${C4:-}" --calibration-tokens 16384 --reconstruct off
done
for tokens in off 16384; do
  step "Codes that learn" "SMOL_OFF_GRID DATA C4 C4_TEST" round "${SMOL_OFF_GRID:-}" smol4-learn-$tokens 12 --bits 4 \
    --calibration "${C4:-}" --calibration-tokens 16384 --reconstruct $tokens
done
step "Block types of llama.cpp" "SMOL_OFF_GRID DATA C4 C4_TEST LLAMA" bench/bench_gguf_out.py "${SMOL_OFF_GRID:-}" \
  "${C4:-}" "${DATA:-}/text/wiki.test.raw" "${C4_TEST:-}" --neuronmm "$NEURONMM" --llama "${LLAMA:-}" \
  --types Q4_0,Q4_K --tokens 16384 --limit 24 --context 512 --work "$folder"
for format in int8 bf16; do
  step "Keys and values" "QWEN_BF16 DATA" keys $format
done
for bits in 4 6 8 16; do
  step "The table and the head" "QWEN_OFF_GRID DATA C4 C4_TEST" round "${QWEN_OFF_GRID:-}" qwen4-table$bits 4 --bits 4 \
    --embedding-bits $bits --calibration "${C4:-}" --calibration-tokens 16384 --reconstruct off
  for model in 4 8; do
    step "The table and the head" "SMOL_OFF_GRID DATA C4 C4_TEST" round "${SMOL_OFF_GRID:-}" smol$model-table$bits 4 \
      --bits $model --embedding-bits $bits --calibration "${C4:-}" --calibration-tokens 16384 --reconstruct off
  done
done
step "Time and memory" "DATA" synthetic
for form in uv pivoted; do
  step "Compressed models" "" bundled $form
done
