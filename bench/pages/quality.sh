folder=$WORK/quality
# Measures rows of the first table. Finished rows are kept in FOLDER.
rows() {  # arguments: FOLDER OPTION...
  bench/quality.py "$SMOL" "$folder/$1" --neuronmm "$NEURONMM" --calibration "$C4" \
    --calibration "$DATA/text/wiki.valid.raw" --text wiki="$DATA/text/wiki.test.raw" --text c4="$C4_TEST" "${@:2}"
}
learnt() {  # arguments: TOKENS off|auto
  local out=$folder/learnt_$1_$2
  "$NEURONMM" compress "$SMOL_BF16" -o "$out" --force --ratio 0.2 --calibration "$C4" \
    --calibration "$DATA/text/wiki.valid.raw" --calibration-tokens "$1" --statistics "$folder/statistics_$1" \
    --reconstruct "$2"
  losses "$out" "$SMOL_BF16" 24
}
learnt_demo() {  # arguments: off|auto
  "$NEURONMM" compress models/demo -o "$folder/demo" --force --ratio 0.4 --form uv --block 32 --reconstruct "$1" \
    --calibration models/demo/calibration.txt
  "$NEURONMM" perplexity "$folder/demo" models/demo/evaluation.txt --reference models/demo
}
own_domain() {  # arguments: OPTION...
  "$NEURONMM" compress "$SMOL_BF16" -o "$folder/own" --force --ratio 0.2 --calibration "$DATA/text/wiki.valid.raw" "$@"
  "$NEURONMM" perplexity "$folder/own" "$DATA/text/wiki.test.raw" --reference "$SMOL_BF16" --context 2048 --limit 20
}
trial() {  # arguments: BITS
  "$NEURONMM" compress "$SMOL" -o "$folder/trial" --force --ratio 0.2 --form auto --bits "$1" --calibration "$C4"
}
time_compress() {  # arguments: OPTION...
  /usr/bin/time -v "$NEURONMM" compress "$SMOL_BF16" -o "$folder/timed" --force --ratio 0.2 --calibration "$C4" "$@"
}
# Prints time and memory of a compression, the losses of its result, and its scores on six tasks.
whole() {  # arguments: MODEL RATIO OPTION...
  local out=$folder/whole
  /usr/bin/time -v "$NEURONMM" compress "$1" -o "$out" --force --ratio "$2" --calibration "$C4" \
    --calibration "$DATA/text/wiki.valid.raw" "${@:3}"
  losses "$out" "$1" 24
  six_tasks "$out"
}
six_tasks() {  # arguments: MODEL
  "$NEURONMM" eval "$1" --data "$DATA" --tasks openbookqa,winogrande,piqa,hellaswag,arc_easy,arc_challenge
}
two_factors() {  # arguments: MODEL BLOCK CALIBRATION TEXT
  local sizes
  for sizes in uniform measured; do
    "$NEURONMM" compress "$1" -o "$folder/two_factors" --force --ratio 0.2 --form uv --method whitened --block "$2" \
      --allocate $sizes --reconstruct off --calibration "$3"
    "$NEURONMM" perplexity "$folder/two_factors" "$4" --reference "$1"
  done
}

step "Every form, by what is kept; Intervals; Predicted and measured sizes; The paper's recipe" "SMOL DATA C4 C4_TEST" rows rows
for bits in 8 4; do
  step "Predicted and measured losses" "SMOL C4" trial $bits
done
for tokens in 65536 131072; do
  step "More calibration text" "SMOL DATA C4 C4_TEST" rows rows_$tokens --calibration-tokens $tokens --kept .8 \
    --rows '*-mixed-two-sided-predicted,*-neurons-two-sided-uniform'
done
for tokens in 32768 131072; do
  for learning in off auto; do
    step "Layer reconstruction" "SMOL_BF16 DATA C4 C4_TEST" learnt $tokens $learning
  done
done
for learning in off auto; do
  step "Layer reconstruction" "" learnt_demo $learning
done
for dense in SMOL_BF16 QWEN_BF16; do
  step "Six tasks" "$dense DATA" six_tasks "${!dense:-}"
  for ratio in 0.1 0.2 0.3; do
    for recipe in "" --paper; do
      step "Six tasks; Time and memory of compress" "$dense DATA C4 C4_TEST" whole "${!dense:-}" $ratio $recipe
    done
  done
done
step "In the calibration's own domain" "SMOL_BF16 DATA" own_domain
step "In the calibration's own domain" "SMOL_BF16 DATA" own_domain --allocate predicted
step "Time and memory of compress" "SMOL_BF16 C4" time_compress
step "Time and memory of compress" "SMOL_BF16 C4" time_compress --allocate predicted
step "Speed of the result" "SMALL SMOL_BF16" "$NEURONMM" bench "${SMOL_BF16:-}" --against "${SMALL:-}" --prompt-tokens 512 \
  --new-tokens 64 --runs 5
step "Other models" "" two_factors models/demo 32 models/demo/calibration.txt models/demo/evaluation.txt
step "Other models" "STORIES260K STORIES" two_factors "${STORIES260K:-}" 4 "${STORIES:-}" models/demo/stories.txt
