#include "compress/mlp_matrix.h"

namespace neuronmm::compress {

std::string_view matrix_name(MlpMatrix matrix) {
  switch (matrix) {
    case MlpMatrix::kGate:
      return "gate";
    case MlpMatrix::kUp:
      return "up";
    case MlpMatrix::kDown:
      break;
  }
  return "down";
}

const ops::LinearWeight& weight_of(const ops::MlpWeight& mlp, MlpMatrix matrix) {
  switch (matrix) {
    case MlpMatrix::kGate:
      return mlp.gate;
    case MlpMatrix::kUp:
      return mlp.up;
    case MlpMatrix::kDown:
      break;
  }
  return mlp.down;
}

}  // namespace neuronmm::compress
