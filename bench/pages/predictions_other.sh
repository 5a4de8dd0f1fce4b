rows=$WORK/predictions_other/rows.csv
predict() {
  python3 bench/other_kernels/predict.py predict --moe "$MOE" --nkilib "$NKI_LIBRARY/src/nkilib_src" --kda "$KDA" \
    --accelopt "$ACCELOPT" --out "$rows"
  python3 bench/other_kernels/predict.py times --kda "$KDA" --out "$rows"
}

step "Errors" "MOE NKI_LIBRARY KDA ACCELOPT" predict
step "Errors; Again" "MOE NKI_LIBRARY KDA ACCELOPT" python3 bench/other_kernels/predict.py errors --out "$rows"
no_numbers "Rule"
