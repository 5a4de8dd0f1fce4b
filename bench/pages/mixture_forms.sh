folder=$WORK/mixture_forms/model
# Makes the mixture smaller in one form and prints its loss on both texts.
form_by() {  # arguments: CALIBRATION OPTION...
  "$NEURONMM" compress "$MIXTURE" -o "$folder" --force --calibration "$1" "${@:2}"
  for text in stories evaluation; do
    "$NEURONMM" perplexity "$folder" "models/demo/$text.txt" --reference "$MIXTURE" --context 256
  done
}
form() {  # arguments: OPTION...
  form_by models/demo/calibration.txt --reconstruct off "$@"
}

for ratio in 0.2 0.25; do
  step "By the program" "MIXTURE" form --ratio $ratio --form basis
  step "By the program" "MIXTURE" form --ratio $ratio --form mixed
done
step "By the program" "MIXTURE" form --ratio 0.25 --form basis --allocate uniform
step "By the program" "MIXTURE" form --ratio 0.2 --form neurons
step "By the program" "MIXTURE" form --ratio 0.25 --form neurons
step "By the program" "MIXTURE" form --ratio 0.25 --form experts
for learning in off auto; do
  for made in mixed basis neurons experts; do
    step "Layers that learn" "MIXTURE STORIES" form_by "${STORIES:-}" --ratio 0.25 --form $made --reconstruct $learning
  done
done
step "Few bits" "MIXTURE" form --ratio 0.25 --form basis --bits 4
step "Few bits" "MIXTURE" form --ratio 0.25 --form mixed --bits 4
step "Few bits" "MIXTURE" form --ratio 0.25 --form neurons --bits 4
step "Other forms" "MIXTURE" python3 bench/mixture_forms.py "${MIXTURE:-}" \
  --calibration models/demo/calibration.txt --text models/demo/stories.txt models/demo/evaluation.txt --ratio 0.25 0.2
# Writes the mixture with blocks of TYPE, and prints their loss on both texts.
rounded() {  # arguments: TYPE OPTION...
  "$NEURONMM" export "$MIXTURE" --target gguf --type "$1" -o "$folder.gguf" --force "${@:2}"
  for text in stories evaluation; do
    "$NEURONMM" perplexity "$folder.gguf" models/demo/$text.txt --reference "$MIXTURE" --context 256 --activations fp32
  done
}
for type in Q4_0 Q4_K; do
  step "As blocks of a GGUF file" "MIXTURE" rounded $type
  step "As blocks of a GGUF file" "MIXTURE" rounded $type --calibration models/demo/calibration.txt \
    --calibration-tokens 8192
done
