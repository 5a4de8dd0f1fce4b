rows=$WORK/predictions_chipboost/nki_library.csv
# Predicts nki-library with the repaired model.
after() {
  python3 bench/nki_library/predict.py predict "$NKI_LIBRARY" --program "$NEURONMM" --out "$rows"
  python3 bench/nki_library/predict.py targets "$NKI_LIBRARY" --out "$rows"
  python3 bench/nki_library/predict.py errors --out "$rows"
}

step "Errors" "" bench/prediction_errors.py docs/measurements/predictions_chipboost.csv --by half
step "Repairs" "" python3 bench/nki_library/predict.py errors --out docs/measurements/predictions.csv --column repaired_us
step "Repairs" "NKI_LIBRARY" after
step "Products on trn3, predicted" "" bench/prediction_errors.py docs/measurements/predictions_trn3.csv
no_numbers "Rule" "Seven verdicts, predicted"
