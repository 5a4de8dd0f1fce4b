#pragma once
// Writes the embeddings of several inputs as one response, in the format of OpenAI's, Ollama's or
// llama.cpp's server. protocol/prepared_embedding.cc creates the writer.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/requests/embedding_request.h"
#include "serve/responses/response_writer.h"

namespace neuronmm::serve {

// The format of the response.
struct EmbeddingSettings {
  EmbeddingForm form = EmbeddingForm::kOpenAi;
  std::optional<int64_t> dimensions;
  int64_t normalization = kEuclideanNorm;
  bool base64 = false;
};

// Returns the first `dimensions` values of an embedding, scaled as `normalization` says. An
// embedding of zeros stays as it is.
std::vector<float> scaled_embedding(std::vector<float> embedding, const EmbeddingSettings& format);

// Returns the base64 of the values as fp32, the lowest byte first.
std::string base64_of_floats(const std::vector<float>& values);

// The writer of one response. It has one prompt per input and no answers.
class EmbeddingWriter : public ResponseWriter {
 public:
  EmbeddingWriter(ResponseSettings settings, EmbeddingSettings format,
                  std::shared_ptr<ResponseSink> sink);

 protected:
  void on_first_start() override { started_ = Clock::now(); }
  bool add_token(size_t, const GeneratedToken&) override { return false; }
  void add_end(size_t, const End&) override {}
  void add_embedding(size_t prompt, std::vector<float>&& embedding) override;
  void send_rest() override;
  std::string error_body(const ApiError& error) override;

 private:
  using Clock = std::chrono::steady_clock;
  std::string text_of(const std::vector<float>& embedding) const;
  std::string openai_body() const;
  std::string ollama_body() const;
  std::string llama_body() const;

  const EmbeddingSettings format_;
  std::vector<std::vector<float>> embeddings_;
  const Clock::time_point arrived_ = Clock::now();
  Clock::time_point started_ = arrived_;
};

}  // namespace neuronmm::serve
