step "Compared with the paper's tiling" "" "$NEURONMM" paper tuning
step "Few rows" "" "$NEURONMM" tune dense_mlp --shape 1,16384,832 --device trn2 --tiling up.contiguous=1
step "The whole MLP, fused" "" "$NEURONMM" paper fused-mlp
