step "Every form, by what is kept; Intervals" "SMOL DATA C4" bench/quality.py "${SMOL:-}" "$WORK/quality/rows" \
  --calibration "${C4:-}" --calibration "${DATA:-}/text/wiki.valid.raw"
for tokens in 32768 131072; do
  for learning in off auto; do
    learnt=$WORK/reconstructed_${tokens}_$learning
    step "Layer reconstruction" "SMOL DATA C4" "$NEURONMM" compress "${SMOL:-}" -o "$learnt" --force --ratio 0.2 \
      --calibration "${C4:-}" --calibration "${DATA:-}/text/wiki.valid.raw" --calibration-tokens $tokens \
      --statistics "$WORK/statistics_$tokens" --reconstruct $learning
    step "Layer reconstruction" "SMOL DATA" "$NEURONMM" perplexity "$learnt" \
      "${DATA:-}/text/wiki.test.raw" --reference "${SMOL:-}" --context 1024 --limit 24
    step "Layer reconstruction" "SMOL C4_TEST" "$NEURONMM" perplexity "$learnt" \
      "${C4_TEST:-}" --reference "${SMOL:-}" --context 1024 --limit 24
  done
done
step "Six tasks" "SMALL DATA" "$NEURONMM" eval "${SMALL:-}" --data "${DATA:-}" \
  --tasks openbookqa,winogrande,piqa,hellaswag,arc_easy,arc_challenge
step "Speed of the result" "SMALL" "$NEURONMM" bench "${SMALL:-}" --prompt-tokens 512 --new-tokens 64 --runs 5
