#pragma once
// Small models with random weights, as tensors in memory that a test may spoil and as folders.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/model_config.h"
#include "model/transformer.h"

namespace neuronmm::model {

struct TestTensor {
  DType dtype;  // float, or I8, U8 or I32 with whole numbers as values
  Shape shape;
  std::vector<float> values;
};
using TestTensors = std::map<std::string, TestTensor>;

// hidden_size 16, intermediate_size 24, 2 layers, 4 heads of head_dim 6 (so 24 is not hidden_size),
// 2 kv heads, vocab_size 19, untied, with the switches of its architecture.
io::ModelConfig tiny_config(io::Architecture architecture);

// The same with a factor for each pair's wavelength and an attention factor.
io::ModelConfig tiny_longrope_config();

// A record of this form and these sizes of each layer.
io::CompressionRecord tiny_record(const std::string& form, std::vector<io::MlpShape> shapes);

// All tensors that the config describes, in fp32; pivots are random.
TestTensors random_tensors(const io::ModelConfig& config, uint64_t seed);

// The same with the linear weights rounded, and their scales and groups; config.quantization is for
// the caller to set.
TestTensors quantized_tensors(const io::ModelConfig& config, const TestTensors& tensors,
                              const io::Quantization& quantization = {});
// What a float matrix stands for when it is rounded.
std::vector<float> values_of(const TestTensor& tensor, const LowBitFormat& format);

// The config.json text that parses back to `config`.
std::string config_json(const io::ModelConfig& config);

// A folder of its own that goes away with the object.
class ModelFolder {
 public:
  ModelFolder();
  ~ModelFolder();
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write_text(const std::string& name, const std::string& text) const;
  void write_tensors(const TestTensors& tensors) const;
  void copy_file(const std::filesystem::path& from, const std::string& name) const;

 private:
  std::filesystem::path path_;
};

// The model of `tensors`; its folder is deleted at once, the mapping keeps the weights alive.
Result<Transformer> load_tiny(const io::ModelConfig& config, const TestTensors& tensors,
                              const ops::Backend& backend);

// Logits of all tokens in one forward from an empty cache.
Matrix all_logits(const Transformer& transformer, const std::vector<TokenId>& tokens);

std::vector<TokenId> random_tokens(int64_t count, int64_t vocab_size, uint64_t seed);

}  // namespace neuronmm::model
