step "Build and test time" "" bench/build_time.py
step "Build and test time" "" bench/build_time.py -D NEURONMM_TESTS=ON --target all
step "Size" "" bench/sizes.py "$NEURONMM"
step "Faults" "" env NEURONMM_FAULTS=250 ctest --preset all -R faults
