rows=$WORK/predictions/rows.csv
predict() {
  python3 bench/nki_library/predict.py predict "$NKI_LIBRARY" --program "$NEURONMM" --out "$rows"
  python3 bench/nki_library/predict.py targets "$NKI_LIBRARY" --out "$rows"
}
errors() { python3 bench/nki_library/predict.py errors --out docs/measurements/predictions.csv "$@"; }

step "Errors" "" errors
step "Errors" "" errors --column repaired_us
step "Errors" "" errors --column repaired_us --half 1
step "Again" "NKI_LIBRARY" predict
step "Again" "NKI_LIBRARY" python3 bench/nki_library/predict.py errors --out "$rows"
no_numbers "Rule" "Repairs"
