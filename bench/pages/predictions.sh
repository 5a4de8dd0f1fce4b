rows=$WORK/predictions/rows.csv
predict() {
  python3 bench/nki_library/predict.py predict "$NKI_LIBRARY" --program "$NEURONMM" --out "$rows"
  python3 bench/nki_library/predict.py targets "$NKI_LIBRARY" --out "$rows"
}

step "Errors" "NKI_LIBRARY" predict
step "Errors; Again" "NKI_LIBRARY" python3 bench/nki_library/predict.py errors --out "$rows"
