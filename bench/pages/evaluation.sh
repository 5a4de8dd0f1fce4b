compare() {  # arguments: NAME=VALUE...
  env LLAMA_PERPLEXITY="$LLAMA/llama-perplexity" "$@" bench/real_model.sh "$SMOL" "$DATA" "$SMOL_GGUF"
}

step "Speed" "SMOL DATA" "$BENCH/bench_evaluation" "${SMOL:-}" "${DATA:-}"
step "Agreement with the harness; A real model, compared with transformers, the harness and llama.cpp" \
  "SMOL DATA SMOL_GGUF LLAMA" compare
step "Agreement with the harness" "SMOL DATA SMOL_GGUF LLAMA" compare LIMIT=2400 BYTES=120000
