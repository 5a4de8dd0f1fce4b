folder=$WORK/cpu_speed
# Compares the synthetic model of 1B in three sizes with a file of llama.cpp.
models() {
  local dense
  dense=$(synthetic_1b)
  [ -d "$folder/4bit" ] || "$NEURONMM" quantize "$dense" -o "$folder/4bit" --bits 4 --group 32
  [ -d "$folder/small" ] || "$NEURONMM" compress "$dense" -o "$folder/small" --ratio 0.2 --form uv --method svd \
    --allocate uniform --no-measure
  "$BENCH/bench_model" "$dense" --against "$folder/small" "$folder/4bit" --llama-bench "$LLAMA/llama-bench" \
    --gguf "$LLAMA_1B_GGUF" --prompt-tokens 512 --new-tokens 32 --runs 3
}
peers() {
  bench/bench_peers.py --neuronmm "$NEURONMM" --neuronmm-model 4bit="$QWEN_4BIT" --neuronmm-model bf16="$QWEN_BF16" \
    --llama-bench "$LLAMA/llama-bench" --llama-model Q4_0="$QWEN_Q4_0_GGUF" \
    --ik-bench "$IK_LLAMA/llama-bench" --ik-model Q4_0="$QWEN_Q4_0_GGUF" \
    --openvino-python "$OPENVINO_PYTHON" --openvino-model Q8_0:bf16="$QWEN_Q8_0_GGUF" \
    --lengths 512,4096,16384 --runs 2 --new-tokens 16
}
first_token() {
  start_server 18123 ready "$NEURONMM" serve "$QWEN_4BIT" --kv-cache-memory 3G
  bench/bench_first_token.py http://127.0.0.1:18123 --prompts 512,4096 --clients 1,16
}
loading() {
  local dense
  dense=$(synthetic_1b)
  "$BENCH/bench_model" "$dense"
  "$BENCH/make_statistics" "$dense" "$folder/statistics"
  for bits in 8 4; do
    /usr/bin/time -v "$NEURONMM" quantize "$dense" -o "$folder/rounded" --bits $bits --force
  done
  /usr/bin/time -v "$NEURONMM" compress "$dense" -o "$folder/mixed" --form mixed --ratio 0.2 --no-measure --reconstruct off \
    --statistics "$folder/statistics" --force
}
open_gguf() { /usr/bin/time -v "$NEURONMM" generate "$QWEN_GGUF" "def add(a, b):" --max-new-tokens 1; }

no_numbers "Machines"
step "Compared with other programs; Whole models" "DATA LLAMA LLAMA_1B_GGUF" models
for length in 512 4096 16384; do
  step "Long prompts with AMX" "QWEN_4BIT" "$NEURONMM" bench "${QWEN_4BIT:-}" --prompt-tokens $length --new-tokens 16 --runs 1
done
step "Long prompts with AMX" "QWEN_4BIT QWEN_BF16 QWEN_Q4_0_GGUF QWEN_Q8_0_GGUF LLAMA IK_LLAMA OPENVINO_PYTHON" peers
step "Long prompts with AMX" "QWEN_4BIT" first_token
step "What bounds reading with AMX" "" "$BENCH/bench_kernels" --rows 512 --operations dense --dots bf16 --repeats 9
step "What bounds reading with AMX" "" "$BENCH/bench_kernels" --rows 512 --operations dense --dots int8 --repeats 9
for bits in 4 8; do
  step "Mixtures of experts" "" "$BENCH/bench_mixture" --bits $bits --runs 7 --new-tokens 32
  step "Mixtures of experts" "" "$BENCH/bench_mixture" --width 1024 --experts 64 --bits $bits --runs 7 --new-tokens 32
done
step "Mixtures of experts" "" "$BENCH/bench_mixture" --mxfp4 --runs 7 --new-tokens 32
step "Writing with a draft" "QWEN_BF16 QWEN_4BIT HUMAN_EVAL" "$BENCH/bench_speculation" "${QWEN_BF16:-}" \
  --draft "${QWEN_4BIT:-}" --prompts "${HUMAN_EVAL:-}" --new-tokens 48
step "Compared with other programs; Kernels compared with oneDNN, libxsmm and OpenBLAS" "" "$BENCH/bench_kernels" \
  --models llama-3.2-1b qwen3-1.7b --dots bf16 --repeats 5
step "Kernels compared with oneDNN, libxsmm and OpenBLAS" "" "$BENCH/bench_tiles"
step "Kernels compared with oneDNN, libxsmm and OpenBLAS" "" "$BENCH/bench_forms" --repeats 15
step "Loading, importing, rounding, compressing" "DATA" loading
step "Loading, importing, rounding, compressing" "QWEN_GGUF" open_gguf
step "Threads and tokenizer" "" "$NEURONMM" bench models/demo --runs 15
step "Threads and tokenizer" "DATA" "$BENCH/bench_tokenizer" "${DATA:-}/tokenizers/llama3" "${DATA:-}/text/wiki.test.raw"
