#include "model/synthesize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <string_view>

#include "base/fnv1a.h"
#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/task_labels.h"
#include "io/families/tensor_names.h"
#include "io/folder_writer.h"
#include "io/quantization.h"
#include "io/safetensors_writer.h"
#include "io/shards.h"
#include "io/text_file.h"
#include "io/transformers_config.h"
#include "model/random_rows.h"
#include "model/tensor_specs.h"

namespace neuronmm::model {
namespace {

namespace fs = std::filesystem;

// Elements made and written together: 8 or 16 MiB.
constexpr int64_t kPieceElements = int64_t{1} << 22;

// Returns x with P(standard normal < x) = p, found by bisection.
double normal_quantile(double p) {
  double low = -10.0, high = 10.0;
  for (int i = 0; i < 52; ++i) {
    const double middle = 0.5 * (low + high);
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

// Normally distributed values from a table of equally likely quantiles, stored in the bits of the
// dtype. Each weight takes 16 random bits, which select one of the 2^16 quantiles, so that writing
// to the disk sets the speed, not arithmetic.
class NormalTable {
 public:
  NormalTable(DType dtype, double standard_deviation) {
    std::vector<double> values(kSize);
    parallel_ranges(kSize, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const double p = (static_cast<double>(i) + 0.5) / static_cast<double>(kSize);
        values[i] = standard_deviation * normal_quantile(p);
      }
    });
    append_rounded(dtype, values.data(), kSize, bits_);
  }

  // Writes elements [first, first + count) of the stream `key` as Bits (uint16_t or uint32_t). Four
  // elements share the 64 random bits of a word. An element depends on its position only, not on
  // the piece or the thread that makes it.
  template <typename Bits>
  void fill(uint64_t key, int64_t first, int64_t count, std::byte* out) const {
    NMM_CHECK(bits_.size() == kSize * sizeof(Bits));
    const auto write_element = [&](int64_t i) {
      const uint64_t position = static_cast<uint64_t>(first + i);
      const uint64_t word = split_mix(key + (position / 4 + 1) * kSplitMixStep);
      const uint64_t index = (word >> (16 * (position % 4))) & 0xFFFF;
      std::memcpy(out + i * static_cast<int64_t>(sizeof(Bits)), &bits_[index * sizeof(Bits)],
                  sizeof(Bits));
    };
    parallel_ranges(count, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) write_element(i);
    });
  }

 private:
  static constexpr int64_t kSize = int64_t{1} << 16;
  std::vector<std::byte> bits_;
};

// One of the tensors of a rounded weight.
struct RoundedTensor {
  std::string weight;  // the name of the weight, which its three tensors share
  int64_t columns = 0;
  LowBitFormat format;
  StoredPart part = StoredPart::kValues;
};

// Writes the tensors of a model. Each tensor has a random stream of its own, derived from the seed
// and the tensor's number.
class Synthesizer {
 public:
  // `rounded` are the tensors of rounded weights, by the names of the folder.
  Synthesizer(const io::ModelConfig& config, const std::map<std::string, RoundedTensor>& rounded,
              uint64_t seed, Progress& progress)
      : rounded_(rounded),
        dtype_(config.dtype),
        seed_(split_mix(seed)),
        hidden_size_(config.hidden_size),
        gain_(static_cast<float>(1.0 - config.gain_offset)),
        table_(config.dtype, config.initializer_range),
        rows_([this](uint64_t stream, int64_t count, float* out) { fill(stream, count, out); }),
        progress_(progress) {}

  Status write_shard(const fs::path& folder, const io::Shard& shard) {
    NMM_ASSIGN(auto writer, io::SafetensorsWriter::create(folder / shard.file_name, shard.specs,
                                                          {{"format", "pt"}}));
    for (const io::TensorSpec& spec : shard.specs) NMM_TRY(write_tensor(writer, spec));
    return writer.finish();
  }

 private:
  Status write_tensor(io::SafetensorsWriter& writer, const io::TensorSpec& spec) {
    if (const auto found = rounded_.find(spec.name); found != rounded_.end())
      return write_rounded(writer, spec, found->second);
    if (spec.dtype == DType::kI32) return write_pivots(writer, spec);
    const uint64_t key = split_mix(seed_ + static_cast<uint64_t>(++tensors_) * kSplitMixStep);
    const int64_t size = TensorView{dtype_, spec.shape, nullptr}.size();
    for (int64_t first = 0; first < size; first += kPieceElements) {
      if (interrupted()) return interrupted_error("nothing was written");
      const int64_t count = std::min(kPieceElements, size - first);
      make_piece(key, first, count, is_norm(spec.name));
      NMM_TRY(writer.append(piece_));
    }
    progress_.update(tensors_, spec.name);
    return {};
  }

  // Writes one of the three tensors of a rounded weight, some rows at a time.
  Status write_rounded(io::SafetensorsWriter& writer, const io::TensorSpec& spec,
                       const RoundedTensor& rounded) {
    const uint64_t key = split_mix(seed_ + fnv1a(rounded.weight));
    const int64_t rows = spec.shape[0];
    const int64_t piece = std::max<int64_t>(1, kPieceElements / rounded.columns);
    for (int64_t first = 0; first < rows; first += piece) {
      if (interrupted()) return interrupted_error("nothing was written");
      piece_.clear();
      rows_.append(key, first, std::min(piece, rows - first), rounded.columns, rounded.format,
                   rounded.part, piece_);
      NMM_TRY(writer.append(piece_));
    }
    progress_.update(++tensors_, spec.name);
    return {};
  }

  void fill(uint64_t stream, int64_t count, float* out) {
    std::vector<std::byte> bytes(static_cast<size_t>(count * dtype_size_bytes(dtype_)));
    const uint64_t key = split_mix(seed_ + stream);
    if (dtype_ == DType::kF32)
      table_.fill<uint32_t>(key, 0, count, bytes.data());
    else
      table_.fill<uint16_t>(key, 0, count, bytes.data());
    to_floats(TensorView{dtype_, {count}, bytes.data()}, 0, count, out);
  }

  // Writes pivots that are spread evenly over the elements of a hidden state.
  Status write_pivots(io::SafetensorsWriter& writer, const io::TensorSpec& spec) {
    std::vector<int32_t> index;
    for (int64_t i = 0; i < spec.shape[0]; ++i) {
      index.push_back(static_cast<int32_t>(i * hidden_size_ / spec.shape[0]));
    }
    NMM_TRY(writer.append(std::as_bytes(std::span(index))));
    progress_.update(++tensors_, spec.name);
    return {};
  }

  // Gains of norms act as ones, because with random gains the activations would grow or vanish from
  // layer to layer.
  void make_piece(uint64_t key, int64_t first, int64_t count, bool norm) {
    piece_.clear();
    if (norm) return append_rounded(dtype_, std::vector<float>(count, gain_).data(), count, piece_);
    piece_.resize(count * dtype_size_bytes(dtype_));
    if (dtype_ == DType::kF32)
      table_.fill<uint32_t>(key, first, count, piece_.data());
    else
      table_.fill<uint16_t>(key, first, count, piece_.data());
  }

  const std::map<std::string, RoundedTensor>& rounded_;
  DType dtype_;
  uint64_t seed_;
  int64_t hidden_size_;
  float gain_;
  NormalTable table_;
  RandomRows rows_;
  Progress& progress_;
  std::vector<std::byte> piece_;
  int64_t tensors_ = 0;  // tensors begun so far
};

// Returns the tensors of a folder of the family, and tells which of them belong to rounded weights.
std::vector<io::TensorSpec> specs_in_folder(io::Architecture family, const io::ModelConfig& config,
                                            const std::optional<io::Quantization>& quantization,
                                            std::map<std::string, RoundedTensor>& rounded) {
  std::vector<io::TensorSpec> specs;
  if (!quantization) {
    for (io::StoredTensor& stored : io::stored_tensors(family, tensor_specs(config)))
      specs.push_back(std::move(stored.spec));
    return specs;
  }
  for (const io::TensorSpec& spec : tensor_specs(config)) {
    const auto format = rounding_of(spec.name, config, *quantization);
    StoredPart part = StoredPart::kValues;
    for (io::TensorSpec& stored : stored_specs(spec, format)) {
      stored.name = io::stored_name(family, stored.name);
      if (format) rounded[stored.name] = {spec.name, spec.shape[1], *format, part};
      part = part == StoredPart::kValues ? StoredPart::kScales : StoredPart::kGroups;
      specs.push_back(std::move(stored));
    }
  }
  return specs;
}

// Writes config.json last. If the process is killed before that, the folder has no config.json and
// no program takes it for a model.
Status write_folder(const io::ModelConfig& config, const fs::path& config_json,
                    const std::optional<io::Quantization>& quantization, const fs::path& folder,
                    uint64_t seed, Progress& progress) {
  NMM_ASSIGN(std::string config_text, io::read_text_file(config_json, io::kMaxConfigBytes));
  // The family in whose files the model is. It may run as another one.
  NMM_ASSIGN(const io::Architecture family,
             io::read_architecture(config_text, config_json.string()));
  if (quantization) {
    NMM_ASSIGN(config_text,
               io::with_quantization(config_text, config_json.string(), *quantization));
  }
  std::map<std::string, RoundedTensor> rounded;
  const std::vector<io::TensorSpec> specs = specs_in_folder(family, config, quantization, rounded);
  int64_t total = 0;
  for (const io::TensorSpec& spec : specs) total += io::size_bytes(spec);
  NMM_TRY(io::check_space(folder, total));
  const std::vector<io::Shard> shards = io::plan_shards(specs);
  progress.start(task::kWriting, static_cast<int64_t>(specs.size()));
  Synthesizer synthesizer(config, rounded, seed, progress);
  for (const io::Shard& shard : shards) NMM_TRY(synthesizer.write_shard(folder, shard));
  if (shards.size() > 1)
    NMM_TRY(io::write_text_file(folder / io::kIndexFileName, io::index_json(shards)));
  NMM_TRY(io::write_text_file(folder / "config.json", config_text));
  progress.finish();
  return {};
}

}  // namespace

Status synthesize(const io::ModelConfig& config, const fs::path& config_json, const fs::path& out,
                  bool force, uint64_t seed, Progress& progress,
                  const io::BeforeOutput<>& before_output,
                  const std::optional<io::Quantization>& quantization) {
  using io::FolderWriter;
  if (config.quantization) {
    return fail(
        "{}: expected float weights, found rounded ones (synthesize, then quantize the result)",
        config_json.string());
  }
  const auto if_exists = force ? FolderWriter::IfExists::kReplace : FolderWriter::IfExists::kRefuse;
  NMM_ASSIGN(FolderWriter writer,
             FolderWriter::create(out, if_exists, {}, FolderWriter::Resume::kNever));
  NMM_TRY(write_folder(config, config_json, quantization, writer.staging(), seed, progress));
  if (before_output) NMM_TRY(before_output());
  return writer.commit();
}

}  // namespace neuronmm::model
