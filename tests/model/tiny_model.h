#pragma once
// Small models with random weights for tests, as tensors in memory that a test may change and as
// folders.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/model_config.h"
#include "model/transformer.h"

namespace neuronmm::model {

struct TestTensor {
  DType dtype;  // a float dtype, or I8, U8 or I32 with whole numbers as values
  Shape shape;
  std::vector<float> values;
};
using TestTensors = std::map<std::string, TestTensor>;

// Returns a config with hidden_size 16, intermediate_size 24, 2 layers, vocab_size 19 and an untied
// head. It has 4 heads of head_dim 6, so that their width of 24 is not hidden_size, and 2 kv heads.
// Architectures differ in their usual switches.
io::ModelConfig tiny_config(io::Architecture architecture);

// Returns a Llama config like that, with a factor for each pair's wavelength and an attention
// factor (longrope).
io::ModelConfig tiny_longrope_config();

// Returns a compression record of this form with the given sizes of each layer.
io::CompressionRecord tiny_record(const std::string& form, std::vector<io::MlpShape> shapes);

// Returns all tensors that the config describes, in fp32. Pivots are random.
TestTensors random_tensors(const io::ModelConfig& config, uint64_t seed);

// Returns the tensors with the linear weights rounded, and with their scales and groups. The caller
// sets config.quantization.
TestTensors quantized_tensors(const io::ModelConfig& config, const TestTensors& tensors,
                              const io::Quantization& quantization = {});
// Returns the values that a float matrix has after rounding to `format`.
std::vector<float> values_of(const TestTensor& tensor, const LowBitFormat& format);

// Returns the tensors of a folder, under the names of the model's family.
TestTensors stored_tensors(const io::ModelConfig& config, const TestTensors& tensors);

// Returns the config.json text that parses back to `config`. Knows the switches of Llama, Mistral,
// Qwen2, Qwen3, OLMo 2, Gemma 2, Granite, OLMoE, gpt-oss and Mixtral.
std::string config_json(const io::ModelConfig& config);

// A temporary folder that is deleted with the object.
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

// Loads the model of `tensors`. Its folder is deleted at once; the mapped files keep the weights
// alive.
Result<Transformer> load_tiny(const io::ModelConfig& config, const TestTensors& tensors,
                              const ops::Backend& backend);

// Returns the logits of all tokens in one forward pass from an empty cache.
Matrix all_logits(const Transformer& transformer, const std::vector<TokenId>& tokens);

std::vector<TokenId> random_tokens(int64_t count, int64_t vocab_size, uint64_t seed);

}  // namespace neuronmm::model
