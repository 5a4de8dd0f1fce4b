#pragma once
// A model folder with weights of 8, 6 or 4 bits (docs/low_bit.md) from one with float weights,
// dense or compressed. Of a low-rank matrix the factor that is applied second is rounded first and
// the other fitted to it; everything else is rounded to nearest.

#include <filesystem>

#include "base/low_bit_format.h"
#include "base/progress.h"
#include "base/result.h"
#include "compress/factorize_model.h"

namespace neuronmm::compress {

// Of all linear layers, and of the LM head (with the embedding table where the two are tied).
struct QuantizedFormats {
  LowBitFormat linear = {}, lm_head = {};
};

struct QuantizeSummary {
  int64_t parameters = 0;  // of the whole model
  int64_t bytes_before = 0, bytes_after = 0;
};

// on_matrix is called for every low-rank matrix as it is finished. Refused: a model that is
// quantized already, an output that io::FolderWriter refuses. An interrupted run keeps the factors
// that it finished beside the output (out + ".partial") and the same request goes on from there.
Result<QuantizeSummary> quantize(const std::filesystem::path& model,
                                 const std::filesystem::path& out, bool force, Progress& progress,
                                 const OnMatrix& on_matrix = {},
                                 const QuantizedFormats& formats = {});

}  // namespace neuronmm::compress
