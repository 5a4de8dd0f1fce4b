table() { build/release/tests/many_cores/task_table >docs/measurements/many_cores.csv; }

step "Writing one token; What a task must be worth" "" table
step "CPU quotas" "QWEN_4BIT" "$NEURONMM" bench "${QWEN_4BIT:-}" --prompt-tokens 256 --new-tokens 8 --runs 1
