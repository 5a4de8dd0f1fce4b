bench() {  # arguments: OPTION...
  local dense
  dense=$(synthetic_1b)
  bench/bench_parallel.py "$NEURONMM" "$dense" "$@"
}

step "Between hosts" "DATA" bench --hosts 2 --rate 10gbit --turns 3 --prompt-tokens 256
step "Between hosts" "DATA" bench --hosts 2 --rate 1gbit --turns 2 --prompt-tokens 256
step "Between hosts" "DATA" bench --hosts 2 --rate 10gbit --delay 0.05ms --turns 3 --prompt-tokens 256 --runs 2 --new-tokens 32
step "Between hosts" "DATA" bench --hosts 2 --serve 8 --prompt-tokens 128 --new-tokens 32 --turns 2
step "On one host" "DATA" bench --processes 1 2
