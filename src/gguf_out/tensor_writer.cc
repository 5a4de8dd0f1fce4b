#include "gguf_out/tensor_writer.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/float16.h"
#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/task_labels.h"

namespace neuronmm::gguf_out {
namespace {

// The elements that are made and written at once, which take 16 to 24 MB.
constexpr int64_t kPieceElements = int64_t{1} << 22;
// The smallest magnitude that rounds to infinity in F16.
constexpr float kOverflowOfF16 = 65520.0f;
constexpr int64_t kQ8Block = 32;

// A row's way into the file.
struct RowJob {
  const MatrixPart* part;
  const DenseRows* rows;  // null if the part has rounded bytes
  std::span<const std::byte> rounded;
  int64_t row;  // of the model's matrix, or -1 for zeros
};

// Encodes the rows of one tensor.
class RowEncoder {
 public:
  RowEncoder(const TensorInfo& info, std::atomic<int64_t>& inexact)
      : type_(info.type),
        columns_(info.shape.back()),
        row_bytes_(encoded_bytes(info.type, columns_)),
        inexact_(inexact) {}

  int64_t row_bytes() const { return row_bytes_; }

  // Writes a row and returns its largest magnitude, which is infinite or NaN if a value is.
  float encode(const RowJob& job, std::vector<float>& values, std::byte* out) const {
    values.assign(static_cast<size_t>(columns_), 0.0f);
    if (job.row >= 0 && job.rows == nullptr) {
      copy_rounded(job, values, out);
      return 0.0f;
    }
    const ops::WeightView* const stored = job.row < 0 ? nullptr : job.rows->stored();
    if (stored != nullptr && stored->quantized() && type_ == BlockType::kQ8_0) {
      encode_bytes(*stored, job.row, values, out);
      return 0.0f;
    }
    if (job.row >= 0) job.rows->read(job.row, values.data());
    const float largest = largest_magnitude(values);
    if (std::isfinite(largest)) encode_row(type_, values.data(), nullptr, columns_, out);
    return largest;
  }

 private:
  static float largest_magnitude(std::span<const float> values) {
    int32_t largest = 0;
    for (const float value : values)
      largest = std::max(largest, std::bit_cast<int32_t>(value) & 0x7FFFFFFF);
    return std::bit_cast<float>(largest);
  }

  void copy_rounded(const RowJob& job, const std::vector<float>& zeros, std::byte* out) const {
    const int64_t stored_bytes = std::ssize(job.rounded) / job.part->stored_rows;
    NMM_CHECK(stored_bytes <= row_bytes_);
    std::copy_n(job.rounded.begin() + job.row * stored_bytes, stored_bytes, out);
    const BlockTypeInfo& block = info(type_);
    const int64_t count = (row_bytes_ - stored_bytes) / block.block_bytes * block.block_elements;
    if (count > 0) encode_row(type_, zeros.data(), nullptr, count, out + stored_bytes);
  }

  // A group of 128 bytes and its scale become four blocks. Other columns are zeros.
  void encode_bytes(const ops::WeightView& weight, int64_t row, std::vector<float>& values,
                    std::byte* out) const {
    const int64_t stored = weight.columns(), groups = weight.scales.columns();
    std::vector<int8_t> bytes(static_cast<size_t>(columns_));
    std::vector<float> scales(static_cast<size_t>(groups));
    to_bytes(weight, row * stored, stored, bytes.data());
    to_floats(weight.scales, row * groups, groups, scales.data());
    for (int64_t first = 0; first < columns_; first += kQ8Block) {
      const int64_t group = std::min(first / ops::kQuantGroup, groups - 1);
      const float scale = scales[static_cast<size_t>(group)];
      const f16 half = f16::from_float(scale);
      std::byte* const block = out + first / kQ8Block * info(type_).block_bytes;
      if (half.to_float() == scale) {
        std::memcpy(block, &half.bits, sizeof(half.bits));
        std::memcpy(block + sizeof(half.bits), &bytes[static_cast<size_t>(first)], kQ8Block);
        continue;
      }
      for (int64_t i = first; i < first + kQ8Block; ++i)
        values[static_cast<size_t>(i)] = scale * static_cast<float>(bytes[static_cast<size_t>(i)]);
      encode_row(type_, &values[static_cast<size_t>(first)], nullptr, kQ8Block, block);
      ++inexact_;
    }
  }

  const BlockType type_;
  const int64_t columns_, row_bytes_;
  std::atomic<int64_t>& inexact_;
};

class TensorsWriter {
 public:
  TensorsWriter(const SourceModel& model, const std::string& source, const RoundedRows& rounded,
                ContainerWriter& writer)
      : model_(model), source_(source), rounded_(rounded), writer_(writer) {}

  Status write(const PlannedTensor& tensor) {
    if (tensor.parts.empty()) {
      NMM_TRY(writer_.append(std::as_bytes(std::span(tensor.values))));
    } else {
      for (const MatrixPart& part : tensor.parts) NMM_TRY(write_part(tensor.info, part));
    }
    model_.checkpoint.release_pages();
    return writer_.end_tensor();
  }
  int64_t inexact() const { return inexact_; }

 private:
  Status write_part(const TensorInfo& info, const MatrixPart& part) {
    const auto bytes = rounded_ ? rounded_(part.name) : std::nullopt;
    const std::unique_ptr<DenseRows> rows = bytes ? nullptr : part.open();
    const RowEncoder encoder(info, inexact_);
    const int64_t piece = std::max<int64_t>(1, kPieceElements / info.shape.back());
    for (int64_t first = 0; first < part.rows; first += piece) {
      if (interrupted()) return interrupted_error("nothing was written");
      const int64_t count = std::min(piece, part.rows - first);
      const auto job_of = [&](int64_t row) {
        return RowJob{&part, rows.get(), bytes.value_or(std::span<const std::byte>()),
                      row < part.stored_rows ? part.stored_row(row) : -1};
      };
      encode(encoder, first, count, job_of);
      NMM_TRY(check(info));
      NMM_TRY(writer_.append(piece_));
      model_.checkpoint.release_pages();
    }
    return {};
  }

  template <typename JobOf>
  void encode(const RowEncoder& encoder, int64_t first, int64_t count, const JobOf& job_of) {
    piece_.resize(static_cast<size_t>(count * encoder.row_bytes()));
    largest_.assign(static_cast<size_t>(count), 0.0f);
    parallel_ranges(count, [&](int64_t begin, int64_t end) {
      std::vector<float> values;
      for (int64_t i = begin; i < end; ++i)
        largest_[static_cast<size_t>(i)] =
            encoder.encode(job_of(first + i), values, piece_.data() + i * encoder.row_bytes());
    });
  }

  Status check(const TensorInfo& info) const {
    for (const float largest : largest_) {
      if (!std::isfinite(largest))
        return fail(
            "{}: {}: expected finite weights, found infinite ones or ones that are no "
            "numbers",
            source_, info.name);
      if (info.type == BlockType::kF16 && largest >= kOverflowOfF16)
        return fail("{}: {}: a weight of magnitude {} is too large for F16 (--type BF16 holds it)",
                    source_, info.name, largest);
    }
    return {};
  }

  const SourceModel& model_;
  const std::string& source_;
  const RoundedRows& rounded_;
  ContainerWriter& writer_;
  std::vector<std::byte> piece_;
  std::vector<float> largest_;
  std::atomic<int64_t> inexact_ = 0;
};

}  // namespace

Result<WrittenTensors> write_tensors(const TensorPlan& plan, const SourceModel& model,
                                     const std::string& source, const RoundedRows& rounded,
                                     ContainerWriter& writer, Progress& progress) {
  progress.start(task::kWriting, std::ssize(plan.tensors));
  TensorsWriter tensors(model, source, rounded, writer);
  int64_t done = 0;
  for (const PlannedTensor& tensor : plan.tensors) {
    NMM_TRY(tensors.write(tensor));
    progress.update(++done, tensor.info.name);
  }
  progress.finish();
  return WrittenTensors{.inexact_blocks = tensors.inexact()};
}

}  // namespace neuronmm::gguf_out
