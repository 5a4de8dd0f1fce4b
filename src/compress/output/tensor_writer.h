#pragma once
// Writes the weight files of a model folder in bounded memory. Linear weights are written as they
// are, or rounded to 8, 6 or 4 bits. model_writer.h and dequantize.h list the tensors and call it.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/low_bit_format.h"
#include "base/progress.h"
#include "base/result.h"
#include "base/tensor.h"
#include "io/model_config.h"
#include "io/safetensors_writer.h"
#include "io/shards.h"
#include "ops/quantize.h"
#include "ops/weights.h"

namespace neuronmm::compress {

// A tensor to write. `visit` is called once and passes the tensor's values on. It may pass several
// pieces of rows if the tensor is not rounded. If `stored` is set, it returns the rounded tensor,
// and `visit` is not called.
struct TensorSource {
  using Use = std::function<Status(const TensorView&)>;

  io::TensorSpec spec;                        // as it is before rounding
  std::optional<LowBitFormat> rounding = {};  // nullopt: written as it is
  std::function<Status(const Use&)> visit = {};
  std::function<Result<ops::QuantizedWeight>()> stored = {};
};

// Passes the values of a weight to `use` in fp32, some rows at a time. A vector is one row, and a
// tensor without elements is not passed on. Returns the first error of `use`.
Status visit_floats(const ops::WeightView& weight, const TensorSource::Use& use);

// Writes model.safetensors to `folder`, or shards of at most max_shard_bytes with an index.
// Tensors get the names that folders of the architecture have. Fails with the tensor's name if a
// value to be rounded is NaN or infinite.
Status write_tensors(const std::vector<TensorSource>& sources, io::Architecture architecture,
                     const std::filesystem::path& folder, Progress& progress,
                     int64_t max_shard_bytes = io::kMaxShardBytes);

}  // namespace neuronmm::compress
