step "Build and test time" "" bench/build_time.py
step "Build and test time" "" bench/build_time.py -D NEURONMM_TESTS=ON --target all
step "Size" "" bench/sizes.py "$NEURONMM"
step "Exactness" "" ctest --preset release -R '^(text|model|gguf|compress)\.'
for script in tokenizers chat_templates transformers gguf_import export; do
  step "Exactness" "" tests/slow/$script.sh
done
step "Faults" "" env NEURONMM_FAULTS=250 ctest --preset all -R faults
