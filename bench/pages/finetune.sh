recover() { FORMS='neurons mixed' TOKENS='76800 307200' bench/recovery.sh "$SMOL" "$DATA"; }
bundled() {
  local out=$WORK/finetune/bundled text=models/demo/calibration.txt
  mkdir -p "$out"
  "$NEURONMM" compress models/demo -o "$out/w" --form uv --ratio 0.4 --block 32 --calibration $text --force
  "$NEURONMM" finetune "$out/w" -o "$out/t" --data $text --teacher models/demo --batch 8 --cutoff 256 \
    --learning-rate 3e-4 --tokens 60000 --force
  "$NEURONMM" perplexity "$out/t" models/demo/evaluation.txt
}

step "A real model" "SMOL DATA" recover
step "The bundled model" "" bundled
step "Speed" "SMALL" "$BENCH/bench_training" "${SMALL:-}"
