step "Every form, by what is kept; Intervals" "SMOL DATA C4" bench/quality.py "${SMOL:-}" "$WORK/quality/rows" \
  --calibration "${C4:-}" --calibration "${DATA:-}/text/wiki.valid.raw"
for learning in off auto; do
  step "Layer reconstruction" "SMOL DATA C4" "$NEURONMM" compress "${SMOL:-}" -o "$WORK/reconstructed_$learning" --force \
    --ratio 0.2 --calibration "${C4:-}" --calibration "${DATA:-}/text/wiki.valid.raw" --reconstruct $learning
  step "Layer reconstruction" "SMOL DATA" "$NEURONMM" perplexity "$WORK/reconstructed_$learning" \
    "${DATA:-}/text/wiki.test.raw" --reference "${SMOL:-}" --context 1024 --limit 24
  step "Layer reconstruction" "SMOL C4_TEST" "$NEURONMM" perplexity "$WORK/reconstructed_$learning" \
    "${C4_TEST:-}" --reference "${SMOL:-}" --context 1024 --limit 24
done
step "Layer reconstruction" "SMOL DATA C4" bench/quality.py "${SMOL:-}" "$WORK/quality/rows" --kept .8 \
  --rows '*mixed-two-sided-measured*' --calibration-tokens 131072 \
  --calibration "${C4:-}" --calibration "${DATA:-}/text/wiki.valid.raw"
step "Six tasks" "SMALL DATA" "$NEURONMM" eval "${SMALL:-}" --data "${DATA:-}" \
  --tasks openbookqa,winogrande,piqa,hellaswag,arc_easy,arc_challenge
step "Speed of the result" "SMALL" "$NEURONMM" bench "${SMALL:-}" --prompt-tokens 512 --new-tokens 64 --runs 5
