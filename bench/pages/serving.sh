# Starts our server and llama.cpp's, and measures both.
compare() {
  local port peer pids=()
  "$NEURONMM" serve "$SMOL_INT8" --port 18000 --kv-cache-memory 2G >/dev/null 2>&1 & pids+=($!)
  "$LLAMA/llama-server" -m "$SMOL_BF16_GGUF" --port 18080 -np 16 -c 4608 >/dev/null 2>&1 & pids+=($!)
  trap 'kill "${pids[@]}" 2>/dev/null' EXIT
  for port in 18000 18080; do
    until curl -sf "http://127.0.0.1:$port/health" >/dev/null; do kill -0 "${pids[@]}"; sleep 0.2; done
  done
  peer=http://127.0.0.1:18080
  bench/bench_serve.py --tokenizer "$SMOL_INT8" http://127.0.0.1:18000 $peer --concurrency 16 --requests 32
}

# Measures the time to the first token beside 1,000 sockets that send or read too slowly.
slow_clients() {
  local pid
  "$NEURONMM" serve "$QWEN" --port 18000 >/dev/null 2>&1 & pid=$!
  trap 'kill $pid' EXIT
  until curl -sf http://127.0.0.1:18000/ready >/dev/null; do kill -0 $pid; sleep 0.2; done
  bench/bench_slow_clients.py http://127.0.0.1:18000 --requests 64 --input 32 --output 8
}

step "Serving; How it was measured" "SMOL_INT8 SMOL_BF16_GGUF LLAMA" compare
step "Prefixes and connections" "SMOL_INT8" tests/slow/serve_prefix.sh "${SMOL_INT8:-}"
step "Hostile clients" "QWEN" slow_clients
step "Hostile output formats" "" tests/slow/hostile_formats.sh
