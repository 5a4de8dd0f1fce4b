# Measures the first table of README.md.
table() {
  bench/first_table.py "$QWEN_OFF_GRID" "$WORK/readme/first_table" --neuronmm "$NEURONMM" --calibration "$C4" \
    --text "$DATA/text/wiki.test.raw" --windows 4 --turns 3 --llama "$LLAMA" --gguf "$QWEN_BF16_GGUF"
  cp "$WORK/readme/first_table/first_table".{csv,svg} docs/measurements/
}

step "First table" "QWEN_OFF_GRID DATA C4 LLAMA QWEN_BF16_GGUF" table
step "Quick start" "QWEN_GGUF" bench/quick_starts.py --neuronmm "$NEURONMM" --gguf "${QWEN_GGUF:-}"
