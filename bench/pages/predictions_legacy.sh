step "Errors" "" bench/prediction_errors.py docs/measurements/predictions_legacy.csv --by kernel
