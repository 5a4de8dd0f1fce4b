step "Speed" "SMOL DATA" "$BENCH/bench_evaluation" "${SMOL:-}" "${DATA:-}"
step "A real model, compared with transformers, the harness and llama.cpp" "SMOL DATA SMOL_GGUF LLAMA" \
  env LLAMA_PERPLEXITY="${LLAMA:-}/llama-perplexity" bench/real_model.sh "${SMOL:-}" "${DATA:-}" "${SMOL_GGUF:-}"
