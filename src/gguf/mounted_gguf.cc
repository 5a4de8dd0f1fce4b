#include "gguf/mounted_gguf.h"

#include <algorithm>
#include <list>
#include <optional>
#include <utility>

#include "gguf/block_format.h"
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

  const std::map<std::string, TensorView>& tensors() const override { return tensors_; }
  Status weights() const override {
    if (plan_) return {};
    if (!file_.tensors().empty()) return plan_error_;
    return fail("{}: expected a model, found no tensors (only a vocabulary)",
                file_.metadata().source());
  }
  std::string conversion() const override { return conversion_; }
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
    std::vector<const io::GgufTensor*> tensors;
    for (const WeightSource& source : plan_->weights.sources) {
      const bool table = source.spec.name == "model.embed_tokens.weight";
      if (source.spec.shape.size() != 2 || (table && !plan_->config.tie_word_embeddings)) continue;
      packed.push_back({source.tensor->type, source.spec.shape[0], source.spec.shape[1]});
      tensors.push_back(source.tensor);
    }
    const std::vector<LowBitFormat> formats = packed_formats(packed, file_bytes_);
    for (size_t i = 0; i < tensors.size(); ++i) packed_as_[tensors[i]] = formats[i];
    conversion_ = conversion_text(packed, formats, file_bytes_);
  }

  TensorView view_of(const WeightSource& source) {
    const io::GgufTensor& tensor = *source.tensor;
    const Shape& shape = source.spec.shape;
    const int64_t head_rows =
        source.interleaved_heads == 0 ? 0 : shape[0] / source.interleaved_heads;
    if (head_rows == 0 && tensor.type->name == "F32")
      return {DType::kF32, shape, tensor.data.data()};
    if (head_rows == 0 && tensor.type->name == "BF16")
      return {DType::kBF16, shape, tensor.data.data()};
    if (shape.size() == 1) return vector_view(tensor, head_rows);
    const auto packed = packed_as_.find(&tensor);
    const LowBitFormat format = packed == packed_as_.end() ? LowBitFormat() : packed->second;
    const BlockFormat& blocks = formats_.emplace_back(*tensor.type, head_rows, format);
    return {DType::kForeign, shape, tensor.data.data(), &blocks};
  }

  // Other vectors are small, so their values are copied in fp32 and in their final order.
  TensorView vector_view(const io::GgufTensor& tensor, int64_t head_rows) {
    const int64_t count = tensor.columns();
    std::vector<float> stored(static_cast<size_t>(count));
    dequantize(*tensor.type, tensor.data.data(), count, stored.data());
    std::vector<float>& values = vectors_.emplace_back(stored.size());
    for (int64_t i = 0; i < count; ++i)
      values[static_cast<size_t>(i)] = stored[static_cast<size_t>(stored_row(i, head_rows))];
    return {DType::kF32, {count}, reinterpret_cast<const std::byte*>(values.data())};
  }

  io::GgufShards file_;
  int64_t file_bytes_ = 0;
  std::optional<Vocabulary> vocabulary_;
  Error vocabulary_error_;
  std::optional<ModelPlan> plan_;
  Error plan_error_;
  std::map<const io::GgufTensor*, LowBitFormat> packed_as_;
  std::string conversion_;
  // Lists do not move their elements, to which views point.
  std::list<BlockFormat> formats_;
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
