#include "gguf/mounted_gguf.h"

#include <algorithm>
#include <list>
#include <optional>
#include <utility>

#include "gguf/block_format.h"
#include "gguf/coded_blocks.h"
#include "gguf/dequantize.h"
#include "gguf/model_plan.h"
#include "gguf/packed_formats.h"
#include "gguf/tokenizer_files.h"

namespace neuronmm::gguf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfig = "config.json", kGeneration = "generation_config.json",
                           kTokenizer = "tokenizer.json",
                           kTokenizerConfig = "tokenizer_config.json";

// The dtype of config.json. Folders that are made of the model have it.
DType config_dtype(const io::GgufShards& model) {
  const auto table = model.tensors().find("token_embd.weight");
  const bool fp32 = table != model.tensors().end() && table->second.type->name == "F32";
  return fp32 ? DType::kF32 : DType::kBF16;
}

class MountedGguf : public io::MountedModel {
 public:
  explicit MountedGguf(io::GgufShards file) : file_(std::move(file)) {
    auto vocabulary = read_vocabulary(file_.metadata());
    if (vocabulary.ok())
      vocabulary_ = std::move(vocabulary).value();
    else
      vocabulary_error_ = vocabulary.error();
    for (const fs::path& path : file_.paths()) {
      std::error_code ignored;
      file_bytes_ += static_cast<int64_t>(fs::file_size(path, ignored));
    }
    if (!file_.tensors().empty()) plan_weights();
  }

  std::vector<std::string> texts() const override {
    std::vector<std::string> names;
    if (!file_.tensors().empty()) names.emplace_back(kConfig);
    if (!vocabulary_ && vocabulary_error_.message.empty()) return names;
    for (const std::string_view name : {kTokenizer, kTokenizerConfig}) names.emplace_back(name);
    if (vocabulary_ && !generation_config_json(*vocabulary_).empty())
      names.emplace_back(kGeneration);
    return names;
  }

  Result<std::string> text(std::string_view name) const override {
    if (name == kConfig) {
      if (!plan_) return plan_error_;
      return plan_->config_text;
    }
    if (!vocabulary_) return vocabulary_error_;
    if (name == kTokenizer) return tokenizer_json(*vocabulary_);
    if (name == kTokenizerConfig) return tokenizer_config_json(*vocabulary_);
    NMM_CHECK(name == kGeneration);
    return generation_config_json(*vocabulary_);
  }

  Result<io::MountedTokenizer> tokenizer() const override {
    if (!vocabulary_) return vocabulary_error_;
    return mounted_tokenizer(*vocabulary_);
  }

  const std::map<std::string, TensorView>& tensors() const override { return tensors_; }
  Status weights() const override {
    if (plan_) return {};
    if (!file_.tensors().empty()) return plan_error_;
    return fail("{}: expected a model, found no tensors (only a vocabulary)",
                file_.metadata().source());
  }
  std::string conversion() const override { return conversion_; }
  std::string architecture() const override {
    return plan_ ? std::string(plan_->architecture.name) : std::string();
  }
  const std::vector<fs::path>& files() const override { return file_.paths(); }
  void release_pages() const override { file_.release_pages(); }

 private:
  void plan_weights() {
    const Vocabulary* const vocabulary = vocabulary_ ? &*vocabulary_ : nullptr;
    auto plan = plan_model(file_, vocabulary, config_dtype(file_), both_tables(file_));
    if (!plan.ok()) {
      plan_error_ = plan.error();
      return;
    }
    plan_ = std::move(plan).value();
    choose_formats();
    for (const WeightSource& source : plan_->weights.sources)
      tensors_.emplace(source.spec.name, view_of(source));
  }

  // The embedding table of an untied model is never packed.
  void choose_formats() {
    std::vector<PackedTensor> packed;
    std::vector<std::string> names;
    for (const WeightSource& source : plan_->weights.sources) {
      const bool table = source.spec.name == "model.embed_tokens.weight";
      if (source.spec.shape.size() != 2 || (table && !plan_->config.tie_word_embeddings)) continue;
      packed.push_back({source.tensor->type, source.spec.shape[0], source.spec.shape[1]});
      names.push_back(source.spec.name);
    }
    const std::vector<LowBitFormat> formats = packed_formats(packed, file_bytes_);
    for (size_t i = 0; i < names.size(); ++i) packed_as_[names[i]] = formats[i];
    conversion_ = conversion_text(packed, formats, file_bytes_);
  }

  TensorView view_of(const WeightSource& source) {
    const io::GgufTensor& tensor = *source.tensor;
    const Shape& shape = source.spec.shape;
    const bool vector = shape.size() == 1;
    const int64_t head_rows =
        source.interleaved_heads == 0 ? 0 : shape[0] / source.interleaved_heads;
    const int64_t row_bytes = vector ? tensor.row_bytes() / tensor.columns() : tensor.row_bytes();
    const std::byte* const data = tensor.data.data() + source.first_row * row_bytes;
    if (head_rows == 0 && source.offset == 0.0f) {
      if (tensor.type->name == "F32") return {DType::kF32, shape, data};
      if (tensor.type->name == "BF16") return {DType::kBF16, shape, data};
    }
    if (vector) return vector_view(source, head_rows);
    const auto packed = packed_as_.find(source.spec.name);
    const LowBitFormat format = packed == packed_as_.end() ? LowBitFormat() : packed->second;
    // Tables stay blocks, because they are compared with their twins (io/twin_tables.h).
    if (source.spec.name.ends_with("proj.weight")) {
      auto coded = CodedBlocks::make({tensor.type, data, shape[0], shape[1], head_rows}, format);
      if (coded != nullptr) return codes_.emplace_back(std::move(coded))->view();
    }
    const BlockFormat& blocks = formats_.emplace_back(*tensor.type, head_rows, format);
    return {DType::kForeign, shape, data, &blocks};
  }

  // Vectors that are not as readers see them are small, so their values are copied in fp32.
  TensorView vector_view(const WeightSource& source, int64_t head_rows) {
    const std::vector<float> stored = vector_row(source);
    const int64_t first = source.first_row % source.tensor->columns();
    std::vector<float>& values = vectors_.emplace_back();
    for (int64_t i = 0; i < source.spec.shape[0]; ++i) {
      const auto from = static_cast<size_t>(first + stored_row(i, head_rows));
      values.push_back(stored[from] - source.offset);
    }
    return {DType::kF32, source.spec.shape, reinterpret_cast<const std::byte*>(values.data())};
  }

  io::GgufShards file_;
  int64_t file_bytes_ = 0;
  std::optional<Vocabulary> vocabulary_;
  Error vocabulary_error_;
  std::optional<ModelPlan> plan_;
  Error plan_error_;
  std::map<std::string, LowBitFormat> packed_as_;
  std::string conversion_;
  // Lists do not move their elements, to which views point.
  std::list<BlockFormat> formats_;
  std::vector<std::unique_ptr<const CodedBlocks>> codes_;
  std::list<std::vector<float>> vectors_;
  std::map<std::string, TensorView> tensors_;
};

std::shared_ptr<const io::MountedModel> mounted(io::GgufShards shards) {
  return std::make_shared<MountedGguf>(std::move(shards));
}

}  // namespace

Result<std::shared_ptr<const io::MountedModel>> mount_bytes(std::span<const std::byte> bytes,
                                                            const std::string& source) {
  NMM_ASSIGN(io::GgufShards shards, io::GgufShards::parse(bytes, source));
  return mounted(std::move(shards));
}

Result<std::shared_ptr<const io::MountedModel>> open_mounted(const fs::path& file) {
  NMM_ASSIGN(io::GgufShards shards, io::GgufShards::open(file));
  return mounted(std::move(shards));
}

}  // namespace neuronmm::gguf
