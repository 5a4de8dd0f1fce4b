step "Errors" "" bench/prediction_errors.py docs/measurements/predictions_chipboost.csv --by half
step "Products on trn3, predicted" "" bench/prediction_errors.py docs/measurements/predictions_trn3.csv
no_numbers "Rule" "Seven verdicts, predicted"
