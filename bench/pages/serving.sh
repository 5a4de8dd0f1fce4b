# Loads our server and llama.cpp's in turns.
compare() {
  start_server 18000 ready "$NEURONMM" serve "$SMOL_INT8" --kv-cache-memory 2G
  start_server 18080 health "$LLAMA/llama-server" -m "$SMOL_BF16_GGUF" -np 16 -c 4608
  bench/bench_serve.py --tokenizer "$SMOL_INT8" http://127.0.0.1:18000 http://127.0.0.1:18080 --concurrency 16 --requests 32
}
pieces() {  # arguments: TOKENS
  start_server 18000 ready "$NEURONMM" serve "$SMOL_INT8" --kv-cache-memory 2G --prefill-chunk "$1"
  bench/bench_serve.py --tokenizer "$SMOL_INT8" http://127.0.0.1:18000 --concurrency 16 --requests 32 --rounds 2
}
# Prints the CPU's rate of products in bytes, and how fast the same requests run without a server.
limits() {
  "$BENCH/bench_kernels" --models llama-3.2-1b --rows 128 --operations dense --repeats 1 --no-peers
  "$NEURONMM" bench "$SMOL_INT8" --prompt-tokens 128 --new-tokens 128 --batch 16
}
# Measures the time to the first token beside 1,000 sockets that send or read too slowly.
slow_clients() {
  start_server 18000 ready "$NEURONMM" serve "$QWEN_420M"
  bench/bench_slow_clients.py http://127.0.0.1:18000 --requests 64 --input 32 --output 8 --most-ratio 10
}
# Loads the program of today and that of an earlier version in turns.
before_and_after() {  # arguments: MODEL TURNS REQUESTS
  local turn port
  start_server 18000 ready "$NEURONMM_BEFORE" serve "$1"
  start_server 18001 ready "$NEURONMM" serve "$1"
  for ((turn = 0; turn < $2; ++turn)); do
    for port in 18000 18001; do
      echo "port $port, of which 18000 is the earlier program"
      tools/load_completions.py http://127.0.0.1:$port --concurrency 16 --requests "$3" --prompt-tokens 128 --new-tokens 64
    done
  done
  ps -o time=,args= -p "${servers[*]}"
}

step "Serving; How it was measured" "SMOL_INT8 SMOL_BF16_GGUF LLAMA" compare
step "Share of the limit" "SMOL_INT8" limits
for tokens in 512 256 128; do
  step "Pieces of prompts" "SMOL_INT8" pieces $tokens
done
step "Prefixes and connections" "SMOL_INT8" tests/slow/serve_prefix.sh "${SMOL_INT8:-}"
step "Prefixes and connections" "" python3 tests/slow/serve_soak/idle.py
step "Hostile clients" "QWEN_420M" slow_clients
step "Hostile output formats" "" tests/slow/hostile_formats.sh
step "Other protocols and prefix reuse" "NEURONMM_BEFORE" before_and_after models/demo 5 320
step "Other protocols and prefix reuse" "NEURONMM_BEFORE QWEN_420M" before_and_after "${QWEN_420M:-}" 3 32
