step "Kernels" "" bench/validation_table.py "$NEURONMM"
no_numbers "The simulator compared with published measurements"
step "Kernels; What stays unexplained; The validation set is not blind" "" "$NEURONMM" paper validation
step "Row blocks" "" "$NEURONMM" paper blocks
step "Whole models" "" "$NEURONMM" paper end-to-end
step "Several cores" "" "$NEURONMM" paper end-to-end --cores 2 --cores 4 --cores 8
step "By form" "" "$NEURONMM" paper forms --keep 0.8
step "The simulator's own time" "" bench/simulator_rate.py "$NEURONMM"
