#pragma once
// Reads models of llama2.c (https://github.com/karpathy/llama2.c) for tests with real, small
// models: its version-0 `.bin` and its tokenizer file.

#include <filesystem>
#include <string>
#include <vector>

#include "io/model_config.h"
#include "model/tiny_model.h"

namespace neuronmm::model {

struct Llama2c {
  io::ModelConfig config;
  TestTensors tensors;  // with Hugging Face's names and row order
};
Llama2c read_llama2c(const std::filesystem::path& bin);

// A tokenizer that only decodes. It returns the text of tokens after BOS like llama2.c's decode(),
// which drops the space that the encoder puts before the first word.
class Llama2cTokenizer {
 public:
  Llama2cTokenizer(const std::filesystem::path& tokenizer_bin, int64_t vocab_size);
  std::string decode(const std::vector<TokenId>& tokens) const;
  const std::vector<std::string>& pieces() const { return pieces_; }

 private:
  std::vector<std::string> pieces_;
};

}  // namespace neuronmm::model
