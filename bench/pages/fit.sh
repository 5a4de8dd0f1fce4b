folder=$WORK/fit
# Runs fit for one budget, and prints the loss of the result on both texts. The windows are the first of
# each text.
budget() {  # arguments: MODEL NAME WINDOWS OPTION...
  local name=$2-${*: -1}
  "$NEURONMM" fit "$1" -o "$folder/$name" --sensitivities "$folder/$2" --calibration "$C4" --force "${@:4}"
  losses "$folder/$name" "$1" "$3"
}
synthetic() {
  local dense
  dense=$(synthetic_1b)
  "$NEURONMM" fit "$dense" -o "$folder/l1b-900M" --bytes 900M --calibration "$C4" --force
}

for bytes in 65M 80.1M 83.5M 103.3M; do
  step "Loss at equal size; Predictions" "SMOL_OFF_GRID DATA C4 C4_TEST" budget "${SMOL_OFF_GRID:-}" smol 24 --bytes $bytes
done
step "Predictions" "SMOL_OFF_GRID DATA C4 C4_TEST" budget "${SMOL_OFF_GRID:-}" smol 24 --max-kl 0.02
step "Predictions" "SMOL_OFF_GRID DATA C4 C4_TEST" budget "${SMOL_OFF_GRID:-}" smol 24 --prefill 3x
step "A model whose table is large" "QWEN_OFF_GRID DATA C4 C4_TEST" budget "${QWEN_OFF_GRID:-}" qwen 4 --bytes 420M
step "A model of 1B" "DATA C4" synthetic
