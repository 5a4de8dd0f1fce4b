#include "model/weight_reader.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "io/quantization.h"
#include "ops/low_bit.h"

namespace neuronmm::model {
namespace {

static_assert(io::kScaleGroupSize == ops::kQuantGroup, "what is stored is what backends compute");

Error wrong(const io::Checkpoint& checkpoint, const std::string& name, std::string_view expected,
            const std::string& found) {
  return fail("{}: tensor {:?}: expected {}, found {}", checkpoint.folder().string(), name,
              expected, found);
}

// Returns the scales [rows, groups] of a rounded weight. All of them are checked, because a single
// negative or infinite scale would produce wrong text without any other sign.
Result<TensorView> require_scales(const io::Checkpoint& checkpoint, const std::string& name,
                                  int64_t rows, int64_t groups) {
  NMM_ASSIGN(const TensorView scales, checkpoint.require(name, {rows, groups}));
  if (scales.dtype != DType::kBF16) {
    return wrong(checkpoint, name, "BF16", std::string(dtype_name(scales.dtype)));
  }
  std::vector<float> row(static_cast<size_t>(groups));
  for (int64_t i = 0; i < rows; ++i) {
    to_floats(scales, i * groups, groups, row.data());
    for (int64_t j = 0; j < groups; ++j) {
      const float scale = row[static_cast<size_t>(j)];
      if (std::isfinite(scale) && scale >= 0) continue;
      return wrong(checkpoint, name, "finite scales of 0 or more",
                   fmt::format("{} at [{}, {}]", scale, i, j));
    }
  }
  return scales;
}

// Returns the tensor `name` if it has exactly this integer dtype and shape.
Result<TensorView> require_bytes(const io::Checkpoint& checkpoint, const std::string& name,
                                 DType dtype, const Shape& shape) {
  const auto found = checkpoint.tensors().find(name);
  const auto text = [](DType of, const Shape& size) {
    return fmt::format("{} {}", dtype_name(of), shape_string(size));
  };
  if (found == checkpoint.tensors().end()) {
    return fail("{}: tensor {:?} is missing, expected {}", checkpoint.folder().string(), name,
                text(dtype, shape));
  }
  const TensorView& tensor = found->second;
  if (tensor.dtype == dtype && tensor.shape == shape) return tensor;
  return wrong(checkpoint, name, text(dtype, shape), text(tensor.dtype, tensor.shape));
}

// Returns the groups of a 4-bit weight. Refuses a group with a code whose value lies outside ±127,
// because kernels would disagree about it.
Result<TensorView> require_groups(const io::Checkpoint& checkpoint, const std::string& name,
                                  int64_t rows, int64_t per_row) {
  NMM_ASSIGN(const TensorView groups, require_bytes(checkpoint, name, DType::kU8, {rows, per_row}));
  const auto* const stored = reinterpret_cast<const uint8_t*>(groups.data);
  const auto* const end = stored + groups.size();
  const auto* const bad = std::find_if_not(
      stored, end, [](uint8_t byte) { return ops::GroupOf4Bits::of(byte).fits(); });
  if (bad == end) return groups;
  const ops::GroupOf4Bits group = ops::GroupOf4Bits::of(*bad);
  return wrong(checkpoint, name, "groups whose values lie within ±127",
               fmt::format("{} to {} at [{}, {}]", group.byte(0), group.byte(15),
                           (bad - stored) / per_row, (bad - stored) % per_row));
}

// Refuses the code 0 of 6 bits. It stands for the byte -32, and the format's bytes range from -31
// to 31.
Status check_codes_of_6bits(const io::Checkpoint& checkpoint, const std::string& name,
                            const ops::WeightView& weight) {
  const int64_t columns = weight.columns();
  const auto* const stored = reinterpret_cast<const uint8_t*>(weight.data);
  const int64_t row_bytes = ops::stored_row_bytes(weight.format, columns);
  std::atomic<int64_t> bad = weight.size();
  parallel_ranges(weight.rows(), [&](int64_t first_row, int64_t last_row) {
    std::vector<uint8_t> q(static_cast<size_t>(columns));
    for (int64_t i = first_row; i < last_row && bad == weight.size(); ++i) {
      ops::read_codes(6, stored + i * row_bytes, columns, 0, columns, q.data());
      const void* const found = std::memchr(q.data(), 0, q.size());
      if (found != nullptr) bad = i * columns + (static_cast<const uint8_t*>(found) - q.data());
    }
  });
  if (bad == weight.size()) return {};
  return wrong(checkpoint, name, "codes of 1 to 63",
               fmt::format("0 at [{}, {}]", bad / columns, bad % columns));
}

Result<ops::WeightView> require_quantized(const io::Checkpoint& checkpoint, const std::string& name,
                                          const Shape& shape, const LowBitFormat& format) {
  const Shape stored = {shape[0], ops::stored_row_bytes(format, shape[1])};
  NMM_ASSIGN(const TensorView values,
             require_bytes(checkpoint, name, format.bits == 8 ? DType::kI8 : DType::kU8, stored));
  const int64_t groups = (shape[1] + ops::kQuantGroup - 1) / ops::kQuantGroup;
  NMM_ASSIGN(TensorView scales,
             require_scales(checkpoint, name + io::kScaleEnding, shape[0], groups));
  ops::WeightView weight(format, shape, values.data, std::move(scales));
  if (format.bits == 4) {
    NMM_ASSIGN(weight.groups, require_groups(checkpoint, name + io::kGroupEnding, shape[0],
                                             ops::groups_of_row(format, shape[1])));
  }
  if (format.bits == 6) NMM_TRY(check_codes_of_6bits(checkpoint, name, weight));
  return weight;
}

}  // namespace

// Tensors of dtype I8 and U8 are read only in a folder that declares rounded weights, and only in
// the declared format. Other programs store other formats under these dtypes, with other scales.
Result<ops::WeightView> require_weight(const io::Checkpoint& checkpoint,
                                       const io::ModelConfig& config, const std::string& name,
                                       const Shape& shape) {
  const auto found = checkpoint.tensors().find(name);
  if (found == checkpoint.tensors().end() ||
      (found->second.dtype != DType::kI8 && found->second.dtype != DType::kU8)) {
    NMM_ASSIGN(const TensorView weight, checkpoint.require(name, shape));
    return ops::WeightView(weight);
  }
  if (!config.quantization) {
    return fail(
        "{}: tensor {:?}: expected a float dtype, found {} (config.json has no "
        "neuronmm_quantization)",
        checkpoint.folder().string(), name, dtype_name(found->second.dtype));
  }
  return require_quantized(checkpoint, name, shape, config.quantization->format_of(name));
}

}  // namespace neuronmm::model
