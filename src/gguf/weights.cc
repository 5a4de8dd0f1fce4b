#include "gguf/weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/task_labels.h"
#include "gguf/block_format.h"
#include "gguf/dequantize.h"
#include "io/families/tensor_names.h"
#include "io/folder_writer.h"
#include "io/shards.h"
#include "io/text_file.h"

namespace neuronmm::gguf {
namespace {

namespace fs = std::filesystem;

// The elements that are made and written at once, which take 8 to 16 MB.
constexpr int64_t kPieceElements = int64_t{1} << 22;
// The bytes that are read before their pages are released. Pages of the mapped file count as memory
// of this process until then.
constexpr int64_t kReadBeforeRelease = int64_t{64} << 20;

// Returns the smallest magnitude that rounds to infinity.
float overflow_of(DType dtype) {
  if (dtype == DType::kF16) return 65520.0f;
  if (dtype == DType::kBF16) return 0x1.FFp127f;
  return std::numeric_limits<float>::infinity();
}

// Returns the largest magnitude, which is infinite or NaN if one of the values is. The bits of
// magnitudes are compared as integers: they sort like the magnitudes, with infinity and then NaN at
// the end.
float largest_magnitude(std::span<const float> values) {
  int32_t largest = 0;
  for (const float value : values)
    largest = std::max(largest, std::bit_cast<int32_t>(value) & 0x7FFFFFFF);
  return std::bit_cast<float>(largest);
}

// A thread's share of a piece: rows of a matrix, or elements of a vector.
struct Share {
  std::vector<float> values;
  std::vector<std::byte> bytes;
  float largest = 0.0f;
};

class WeightsWriter {
 public:
  WeightsWriter(const io::GgufShards& model, Progress& progress)
      : model_(model), progress_(progress), shares_(static_cast<size_t>(num_threads())) {}

  Status write_tensor(io::SafetensorsWriter& writer, const WeightSource& source) {
    const io::GgufTensor& tensor = *source.tensor;
    // A vector whose elements change places is dequantized as a whole, and then treated as rows of
    // one element.
    const bool vector = source.spec.shape.size() == 1;
    const int64_t rows = vector ? 1 : source.spec.shape.front();
    const int64_t piece_rows = std::max<int64_t>(1, kPieceElements / tensor.columns());
    for (int64_t first = 0; first < rows; first += piece_rows) {
      if (interrupted()) return interrupted_error("nothing was written");
      const int64_t count = std::min(piece_rows, rows - first);
      if (vector)
        make_vector(source);
      else
        make_rows(source, first, count);
      NMM_TRY(check_values(source));
      for (const Share& share : shares_) NMM_TRY(writer.append(share.bytes));
      release(count * tensor.row_bytes());
    }
    progress_.update(++tensors_, source.spec.name);
    return {};
  }

 private:
  // Returns the row of the file's tensor that becomes row `row` of the folder's tensor.
  static int64_t source_row(const WeightSource& source, int64_t row) {
    const int64_t heads = source.interleaved_heads;
    return stored_row(row, heads == 0 ? 0 : source.spec.shape.front() / heads);
  }

  void make_rows(const WeightSource& source, int64_t first, int64_t count) {
    const io::GgufTensor& tensor = *source.tensor;
    const int64_t shares = std::ssize(shares_), columns = tensor.columns();
    parallel_for(shares, [&](int64_t i) {
      Share& share = shares_[static_cast<size_t>(i)];
      const int64_t begin = first + count * i / shares, end = first + count * (i + 1) / shares;
      share.values.resize(static_cast<size_t>((end - begin) * columns));
      for (int64_t row = begin; row < end; ++row) {
        const int64_t from = source.first_row + source_row(source, row);
        dequantize(*tensor.type, tensor.data.data() + from * tensor.row_bytes(), columns,
                   share.values.data() + (row - begin) * columns);
      }
      round(source.spec.dtype, share);
    });
  }

  void make_vector(const WeightSource& source) {
    const io::GgufTensor& tensor = *source.tensor;
    const std::vector<float> stored = vector_row(source);
    for (Share& share : shares_) {
      share.values.clear();
      share.bytes.clear();
      share.largest = 0.0f;
    }
    Share& share = shares_.front();
    const int64_t size = source.spec.shape.front();
    for (int64_t i = 0; i < size; ++i) {
      const int64_t from = source.first_row % tensor.columns() + source_row(source, i);
      share.values.push_back(stored[static_cast<size_t>(from)] - source.offset);
    }
    round(source.spec.dtype, share);
  }

  static void round(DType dtype, Share& share) {
    share.bytes.clear();
    append_rounded(dtype, share.values.data(), std::ssize(share.values), share.bytes);
    share.largest = largest_magnitude(share.values);
  }

  Status check_values(const WeightSource& source) const {
    const DType dtype = source.spec.dtype;
    const auto error = [&](const std::string& found) {
      return fail("{}: tensor {:?} ({}): {}", model_.metadata().source(), source.tensor->name,
                  source.tensor->type->name, found);
    };
    for (const Share& share : shares_) {
      if (!std::isfinite(share.largest))
        return error("expected finite weights, found infinite ones or ones that are no numbers");
      if (share.largest >= overflow_of(dtype))
        return error(
            fmt::format("a weight of magnitude {} is too large for {} (--dtype f32 holds it)",
                        share.largest, dtype_name(dtype)));
    }
    return {};
  }

  void release(int64_t bytes_read) {
    read_ += bytes_read;
    if (read_ < kReadBeforeRelease) return;
    model_.release_pages();
    read_ = 0;
  }

  const io::GgufShards& model_;
  Progress& progress_;
  std::vector<Share> shares_;
  int64_t tensors_ = 0, read_ = 0;
};

}  // namespace

std::vector<float> vector_row(const WeightSource& source) {
  const io::GgufTensor& tensor = *source.tensor;
  std::vector<float> row(static_cast<size_t>(tensor.columns()));
  const int64_t number = source.first_row / tensor.columns();
  dequantize(*tensor.type, tensor.data.data() + number * tensor.row_bytes(), tensor.columns(),
             row.data());
  return row;
}

Status write_weights(const io::GgufShards& model, const WeightMap& map, const fs::path& folder,
                     Progress& progress) {
  std::vector<io::TensorSpec> canonical, specs;
  int64_t total = 0;
  for (const WeightSource& source : map.sources) {
    canonical.push_back(source.spec);
    total += io::size_bytes(source.spec);
  }
  NMM_TRY(io::check_space(folder, total));
  const std::vector<io::StoredTensor> stored = io::stored_tensors(map.architecture, canonical);
  for (const io::StoredTensor& tensor : stored) specs.push_back(tensor.spec);
  const std::vector<io::Shard> shards = io::plan_shards(specs);
  progress.start(task::kWriting, std::ssize(canonical));
  WeightsWriter weights(model, progress);
  // The shards hold the tensors in this order.
  auto source = map.sources.begin();
  auto tensor = stored.begin();
  for (const io::Shard& shard : shards) {
    NMM_ASSIGN(auto writer, io::SafetensorsWriter::create(folder / shard.file_name, shard.specs,
                                                          {{"format", "pt"}}));
    for (size_t i = 0; i < shard.specs.size(); ++i, ++tensor) {
      for (int64_t part = 0; part < tensor->parts; ++part, ++source)
        NMM_TRY(weights.write_tensor(writer, *source));
    }
    NMM_TRY(writer.finish());
  }
  if (shards.size() > 1)
    NMM_TRY(io::write_text_file(folder / io::kIndexFileName, io::index_json(shards)));
  progress.finish();
  return {};
}

}  // namespace neuronmm::gguf
