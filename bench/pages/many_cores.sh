table() { build/release/tests/many_cores/task_table >docs/measurements/many_cores.csv; }
# Measures with half a core, which needs root and systemd.
half_a_core() {
  local threads
  for threads in "" 1 2; do
    systemd-run --quiet --scope -p CPUQuota=50% "$NEURONMM" bench "$QWEN_4BIT" --prompt-tokens 256 --new-tokens 8 --runs 1 \
      ${threads:+--threads $threads}
  done
}

step "Writing one token; What a task must be worth" "" table
step "CPU quotas" "QWEN_4BIT" half_a_core
