folder=$WORK/finetune
text=models/demo/calibration.txt
recover() { FORMS='neurons mixed' TOKENS='76800 307200' bench/recovery.sh "$SMOL" "$DATA" "$folder/recovery"; }
compress_demo() {  # arguments: OUT OPTION...
  "$NEURONMM" compress models/demo -o "$1" --block 32 --reconstruct off --calibration $text --force "${@:2}"
}
# Trains a folder on the text of the bundled model, and prints the loss of the result.
train_demo() {  # arguments: MODEL OUT OPTION...
  "$NEURONMM" finetune "$1" -o "$2" --data $text --teacher models/demo --batch 8 --cutoff 256 --learning-rate 3e-4 \
    --tokens 60000 --force "${@:3}"
  "$NEURONMM" perplexity "$2" models/demo/evaluation.txt --reference models/demo
}
bundled() {
  compress_demo "$folder/w" --form uv --ratio 0.4
  train_demo "$folder/w" "$folder/t"
}
few_bits() {  # arguments: FORM
  compress_demo "$folder/float" --form "$1" --ratio 0.2
  train_demo "$folder/float" "$folder/t"
  "$NEURONMM" quantize "$folder/t" -o "$folder/t4" --bits 4 --force
  "$NEURONMM" perplexity "$folder/t4" models/demo/evaluation.txt --reference models/demo
  compress_demo "$folder/w4" --form "$1" --ratio 0.2 --bits 4
  "$NEURONMM" perplexity "$folder/w4" models/demo/evaluation.txt --reference models/demo
  train_demo "$folder/float" "$folder/t" --bits 4
  train_demo "$folder/w4" "$folder/t"
}

step "A real model" "SMOL DATA" recover
step "The bundled model" "" bundled
for form in uv pivoted; do
  step "Few bits" "" few_bits $form
done
step "Speed" "SMALL" "$BENCH/bench_training" "${SMALL:-}"
