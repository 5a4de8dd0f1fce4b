step "Gain in time, by shape; The shapes of models" "" "$NEURONMM" paper kernels
step "Gain in traffic" "" "$NEURONMM" paper traffic
step "Accuracy and gamma; Perplexities" "" "$NEURONMM" paper quality
step "The paper's numbers and ours" "" "$NEURONMM" paper end-to-end
