folder=$WORK/cpu_speed
# Makes the synthetic model of 1B once.
synthetic() {
  mkdir -p "$folder"
  [ -d "$folder/l1b" ] || "$NEURONMM" synthesize --config "$DATA/configs/Llama-3.2-1B.config.json" -o "$folder/l1b"
  [ -d "$folder/l1b-4" ] || "$NEURONMM" quantize "$folder/l1b" -o "$folder/l1b-4" --bits 4 --group 32
}
models() { synthetic && "$BENCH/bench_model" "$folder/l1b" --against "$folder/l1b-4" --prompt-tokens 512 --new-tokens 32 --runs 3; }
loading() { synthetic && "$BENCH/bench_model" "$folder/l1b"; }
first_token() {
  local pid
  "$NEURONMM" serve "$QWEN_4BIT" --port 18123 --kv-cache-memory 3G >/dev/null 2>&1 & pid=$!
  trap 'kill $pid' EXIT
  until curl -sf http://127.0.0.1:18123/ready >/dev/null; do kill -0 $pid; sleep 0.2; done
  bench/bench_first_token.py http://127.0.0.1:18123 --prompts 512,4096 --clients 1,16
}

no_numbers "Machines"
step "Whole models" "DATA" models
for length in 512 4096 16384; do
  step "Long prompts with AMX" "QWEN_4BIT" "$NEURONMM" bench "${QWEN_4BIT:-}" --prompt-tokens $length --new-tokens 16 --runs 1
done
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
step "Kernels compared with oneDNN, libxsmm and OpenBLAS" "" "$BENCH/bench_kernels" --models llama-3.2-1b qwen3-1.7b \
  --dots bf16 --repeats 5
step "Loading, importing, rounding, compressing" "DATA" loading
step "Threads and tokenizer" "" "$NEURONMM" bench models/demo --runs 15
step "Threads and tokenizer" "DATA" "$BENCH/bench_tokenizer" "${DATA:-}/tokenizers/llama3" "${DATA:-}/text/wiki.test.raw"
