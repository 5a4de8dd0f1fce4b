#pragma once
// Writes a model folder's weight files, linear weights as they are or rounded to 8, 6 or 4 bits, in
// bounded memory.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/low_bit_format.h"
#include "base/progress.h"
#include "base/result.h"
#include "base/tensor.h"
#include "io/safetensors_writer.h"
#include "io/shards.h"
#include "ops/quantize.h"

namespace neuronmm::compress {

// One tensor to write. `visit` finds or makes it and passes it on; it is called once. Where it is
// known how a rounded one is stored, `stored` takes its place.
struct TensorSource {
  using Use = std::function<Status(const TensorView&)>;

  io::TensorSpec spec;                        // before it is rounded
  std::optional<LowBitFormat> rounding = {};  // nullopt: written as it is
  std::function<Status(const Use&)> visit = {};
  std::function<Result<ops::QuantizedWeight>()> stored = {};
};

// model.safetensors in `folder`, or shards of at most max_shard_bytes with an index.
// `if_interrupted` says what an interrupt leaves. Refused: NaN and infinity in what is rounded.
Status write_tensors(const std::vector<TensorSource>& sources, const std::filesystem::path& folder,
                     const std::string& if_interrupted, Progress& progress,
                     int64_t max_shard_bytes = io::kMaxShardBytes);

}  // namespace neuronmm::compress
