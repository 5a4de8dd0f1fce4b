rows=$WORK/predictions_other/rows.csv
predict() {
  python3 bench/other_kernels/predict.py predict --moe "$MOE" --nkilib "$NKI_LIBRARY/src/nkilib_src" --kda "$KDA" \
    --accelopt "$ACCELOPT" --program "$NEURONMM" --out "$rows"
  python3 bench/other_kernels/predict.py times --kda "$KDA" --out "$rows"
}

step "Errors" "" python3 bench/other_kernels/predict.py errors
step "Half 0, explained" "" python3 bench/other_kernels/predict.py errors --column repaired_us
step "Again" "MOE NKI_LIBRARY KDA ACCELOPT" predict
step "Again" "MOE NKI_LIBRARY KDA ACCELOPT" python3 bench/other_kernels/predict.py errors --out "$rows"
no_numbers "Rule"
