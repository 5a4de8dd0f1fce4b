#include "model/weight_reader.h"

#include <cmath>
#include <vector>

#include "io/quantization.h"

namespace neuronmm::model {
namespace {

static_assert(io::kInt8GroupSize == ops::kQuantGroup, "what is stored is what backends compute");

// The scales of the int8 weight `name`: [rows, groups]. All are looked at: one negative or infinite
// scale would turn into wrong text without any other sign.
Result<TensorView> require_scales(const io::Checkpoint& checkpoint, const std::string& name,
                                  int64_t rows, int64_t groups) {
  NMM_ASSIGN(const TensorView scales, checkpoint.require(name, {rows, groups}));
  const auto wrong = [&](std::string_view expected, const std::string& found) {
    return fail("{}: tensor {:?}: expected {}, found {}", checkpoint.folder().string(), name,
                expected, found);
  };
  if (scales.dtype != DType::kBF16) return wrong("BF16", std::string(dtype_name(scales.dtype)));
  std::vector<float> row(static_cast<size_t>(groups));
  for (int64_t i = 0; i < rows; ++i) {
    to_floats(scales, i * groups, groups, row.data());
    for (int64_t j = 0; j < groups; ++j) {
      const float scale = row[static_cast<size_t>(j)];
      if (std::isfinite(scale) && scale >= 0) continue;
      return wrong("finite scales of 0 or more", fmt::format("{} at [{}, {}]", scale, i, j));
    }
  }
  return scales;
}

}  // namespace

// A weight is what its tensor's dtype says, and I8 only in a folder that declares int8 weights:
// other programs store other formats as I8, with other scales.
Result<ops::WeightView> require_weight(const io::Checkpoint& checkpoint,
                                       const io::ModelConfig& config, const std::string& name,
                                       const Shape& shape) {
  const auto found = checkpoint.tensors().find(name);
  if (found == checkpoint.tensors().end() || found->second.dtype != DType::kI8) {
    NMM_ASSIGN(const TensorView weight, checkpoint.require(name, shape));
    return ops::WeightView(weight);
  }
  const std::string folder = checkpoint.folder().string();
  if (!config.int8_weights) {
    return fail(
        "{}: tensor {:?}: expected a float dtype, found I8 (config.json has no "
        "neuronmm_quantization)",
        folder, name);
  }
  const TensorView& weight = found->second;
  if (weight.shape != shape) {
    return fail("{}: tensor {:?}: expected shape {}, found {}", folder, name, shape_string(shape),
                shape_string(weight.shape));
  }
  const int64_t groups = (shape[1] + ops::kQuantGroup - 1) / ops::kQuantGroup;
  NMM_ASSIGN(const TensorView scales,
             require_scales(checkpoint, name + io::kScaleEnding, shape[0], groups));
  return ops::WeightView(weight, scales);
}

}  // namespace neuronmm::model
