step "Between hosts" "L1B" bench/bench_parallel.py "$NEURONMM" "${L1B:-}" --hosts 2 --rate 10gbit --turns 3 --prompt-tokens 256
step "Between hosts" "L1B" bench/bench_parallel.py "$NEURONMM" "${L1B:-}" --hosts 2 --serve 8 --prompt-tokens 128 \
  --new-tokens 32 --turns 2
step "On one host" "L1B" bench/bench_parallel.py "$NEURONMM" "${L1B:-}" --processes 1 2
