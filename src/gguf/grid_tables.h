#pragma once
// The vectors that the types IQ1, IQ2 and IQ3 of GGUF index. Each vector is one number that holds
// the indices of its elements' values, with the first element in the lowest bits. The vectors of 8
// elements have 2 bits per element, those of 4 elements have 3. grid_quants.cc knows the values.

#include <array>
#include <cstdint>

namespace neuronmm::gguf {

extern const std::array<uint16_t, 256> kIq2XxsGrid;
extern const std::array<uint16_t, 512> kIq2XsGrid;
extern const std::array<uint16_t, 1024> kIq2SGrid;
extern const std::array<uint16_t, 256> kIq3XxsGrid;  // of 4 elements
extern const std::array<uint16_t, 512> kIq3SGrid;    // of 4 elements
extern const std::array<uint16_t, 2048> kIq1Grid;

}  // namespace neuronmm::gguf
