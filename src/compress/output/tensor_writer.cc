#include "compress/output/tensor_writer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/task_labels.h"
#include "compress/rounding/quantized_formats.h"
#include "io/families/tensor_names.h"
#include "io/folder_writer.h"
#include "io/quantization.h"
#include "io/safetensors_writer.h"
#include "io/text_file.h"
#include "model/tensor_specs.h"
#include "ops/quantize.h"

namespace neuronmm::compress {
namespace {

// The number of elements that are converted or rounded together, 8 to 16 MB of input. Assumed: that
// is enough rows to keep all threads busy, and more would only need more memory.
constexpr int64_t kPieceElements = int64_t{1} << 22;

int64_t total_bytes(const io::Shard& shard) {
  int64_t total = 0;
  for (const io::TensorSpec& spec : shard.specs) total += io::size_bytes(spec);
  return total;
}

// Writes the bytes of all tensors in the order of the shards' specs, one file after the other.
class ShardWriter {
 public:
  ShardWriter(std::vector<io::Shard> shards, const std::filesystem::path& folder)
      : shards_(std::move(shards)), folder_(folder) {}

  // Appends bytes of a tensor, which may come in several pieces. A file is finished after its last
  // byte, and the next file begins with the next byte.
  Status append(std::span<const std::byte> bytes) {
    if (bytes.empty()) return {};
    if (!writer_) {
      const io::Shard& shard = shards_[shard_++];
      NMM_ASSIGN(writer_, io::SafetensorsWriter::create(folder_ / shard.file_name, shard.specs,
                                                        {{"format", "pt"}}));
      missing_ = total_bytes(shard);
    }
    NMM_TRY(writer_->append(bytes));
    if ((missing_ -= std::ssize(bytes)) > 0) return {};
    NMM_TRY(writer_->finish());
    writer_.reset();
    return {};
  }

  Status finish() const {
    if (shards_.size() == 1) return {};
    return io::write_text_file(folder_ / io::kIndexFileName, io::index_json(shards_));
  }

 private:
  std::vector<io::Shard> shards_;
  const std::filesystem::path& folder_;
  size_t shard_ = 0;     // the next shard to begin
  int64_t missing_ = 0;  // bytes that the open shard still lacks
  std::optional<io::SafetensorsWriter> writer_;
};

// Returns a view of some rows of a row-major matrix. No values are copied.
TensorView rows_of(const TensorView& matrix, int64_t first, int64_t count) {
  const int64_t row_bytes = matrix.columns() * dtype_size_bytes(matrix.dtype);
  return {matrix.dtype, {count, matrix.columns()}, matrix.data + first * row_bytes};
}

// Returns how many rows of so many columns are converted or rounded together.
int64_t rows_of_piece(int64_t columns) {
  return std::max<int64_t>(1, kPieceElements / std::max<int64_t>(1, columns));
}

// Passes the rows of a matrix to `use`, some at a time: views of a matrix of ours, and fp32 copies
// of one in a foreign format.
Status visit_rows(const TensorView& matrix, const TensorSource::Use& use) {
  if (matrix.foreign != nullptr) return visit_floats(matrix, use);
  const int64_t step = rows_of_piece(matrix.columns());
  for (int64_t first = 0; first < matrix.rows(); first += step) {
    NMM_TRY(use(rows_of(matrix, first, std::min(step, matrix.rows() - first))));
  }
  return {};
}

// Appends a tensor in a foreign format in the dtype of its spec.
Status append_foreign(ShardWriter& writer, const io::TensorSpec& spec, const TensorView& tensor) {
  std::vector<std::byte> bytes;
  return visit_floats(tensor, [&](const TensorView& rows) {
    bytes.clear();
    append_rounded(spec.dtype, reinterpret_cast<const float*>(rows.data), rows.size(), bytes);
    return writer.append(bytes);
  });
}

// Returns whether all scales are finite. A scale is not finite if its columns hold NaN or infinity.
bool all_finite(const std::vector<bf16>& scales) {
  return std::ranges::all_of(scales, [](bf16 scale) { return std::isfinite(scale.to_float()); });
}

// Rounds a weight piece by piece and appends it. In the file all values of a matrix come before its
// scales, and the scales before its groups. Scales and groups are therefore kept until the last
// rows are rounded.
Status append_rounded_to(const LowBitFormat& format, ShardWriter& writer, const std::string& name,
                         const TensorView& weight) {
  std::vector<bf16> scales;
  std::vector<uint8_t> groups;
  const Status visited = visit_rows(weight, [&](const TensorView& rows) -> Status {
    const auto piece = ops::quantize(rows, format);
    if (!all_finite(piece.scales)) {
      return fail("tensor {:?}: cannot be rounded to {} bits: it holds NaN or infinity", name,
                  format.bits);
    }
    NMM_TRY(writer.append(std::as_bytes(std::span(piece.values))));
    scales.insert(scales.end(), piece.scales.begin(), piece.scales.end());
    groups.insert(groups.end(), piece.multipliers.begin(), piece.multipliers.end());
    return {};
  });
  NMM_TRY(visited);
  NMM_TRY(writer.append(std::as_bytes(std::span(scales))));
  return writer.append(std::as_bytes(std::span(groups)));
}

// Appends a weight that is rounded already.
Status append_stored(ShardWriter& writer, const ops::QuantizedWeight& stored) {
  NMM_TRY(writer.append(std::as_bytes(std::span(stored.values))));
  NMM_TRY(writer.append(std::as_bytes(std::span(stored.scales))));
  return writer.append(std::as_bytes(std::span(stored.multipliers)));
}

Status append_tensor(const TensorSource& source, ShardWriter& writer) {
  if (source.stored) {
    NMM_ASSIGN(const ops::QuantizedWeight stored, source.stored());
    return append_stored(writer, stored);
  }
  return source.visit([&](const TensorView& tensor) {
    if (source.rounding) {
      return append_rounded_to(*source.rounding, writer, source.spec.name, tensor);
    }
    if (tensor.foreign != nullptr) return append_foreign(writer, source.spec, tensor);
    return writer.append(std::span(tensor.data, static_cast<size_t>(tensor.size_bytes())));
  });
}

}  // namespace

Status visit_floats(const ops::WeightView& weight, const TensorSource::Use& use) {
  if (weight.size() == 0) return {};
  const int64_t columns = weight.shape.empty() ? 1 : weight.shape.back();
  const int64_t rows = weight.size() / columns, step = rows_of_piece(columns);
  std::vector<float> values;
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t count = std::min(step, rows - first);
    values.resize(static_cast<size_t>(count * columns));
    parallel_ranges(count, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        ops::to_floats(weight, (first + i) * columns, columns, values.data() + i * columns);
      }
    });
    NMM_TRY(
        use({DType::kF32, {count, columns}, reinterpret_cast<const std::byte*>(values.data())}));
  }
  return {};
}

Status write_tensors(const std::vector<TensorSource>& sources, io::Architecture architecture,
                     const std::filesystem::path& folder, Progress& progress,
                     int64_t max_shard_bytes) {
  // A safetensors header needs all sizes before the first byte of data.
  std::vector<io::TensorSpec> specs;
  for (const TensorSource& source : sources) {
    for (io::TensorSpec& spec : model::stored_specs(source.spec, source.rounding)) {
      spec.name = io::stored_name(architecture, spec.name);
      specs.push_back(std::move(spec));
    }
  }
  ShardWriter writer(io::plan_shards(specs, max_shard_bytes), folder);
  progress.start(task::kWriting, std::ssize(sources));
  int64_t done = 0;
  for (const TensorSource& source : sources) {
    if (interrupted()) return interrupted_error("the model is not written");
    NMM_TRY(append_tensor(source, writer));
    progress.update(++done, source.spec.name);
  }
  progress.finish();
  return writer.finish();
}

}  // namespace neuronmm::compress
