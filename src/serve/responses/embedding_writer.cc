#include "serve/responses/embedding_writer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include <fmt/ranges.h>

namespace neuronmm::serve {
namespace {

// Returns the number by which the values are divided.
double norm_of(const std::vector<float>& values, int64_t normalization) {
  double largest = 0.0, sum = 0.0;
  for (const float value : values) largest = std::max(largest, std::abs(double{value}));
  // The largest value that llama.cpp sends, so that a value fits into an integer of 16 bits.
  constexpr double kLargest = 32760.0;
  if (normalization == kLargestNormalization) return largest / kLargest;
  if (normalization < 0 || largest == 0.0) return normalization < 0 ? 1.0 : 0.0;
  const auto p = static_cast<double>(normalization);
  // Powers of quotients do not overflow.
  for (const float value : values) sum += std::pow(std::abs(double{value}) / largest, p);
  return largest * std::pow(sum, 1.0 / p);
}

}  // namespace

std::vector<float> scaled_embedding(std::vector<float> embedding, const EmbeddingSettings& format) {
  if (format.dimensions && *format.dimensions < std::ssize(embedding))
    embedding.resize(static_cast<size_t>(*format.dimensions));
  const double norm = norm_of(embedding, format.normalization);
  if (norm == 0.0) return embedding;
  for (float& value : embedding) value = static_cast<float>(double{value} / norm);
  return embedding;
}

std::string base64_of_floats(const std::vector<float>& values) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes, text;
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(bits >> shift);
  }
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](size_t k) {
      return i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0u;
    };
    const uint32_t group = byte(0) << 16 | byte(1) << 8 | byte(2);
    for (int shift = 18; shift >= 0; shift -= 6) text += kDigits[group >> shift & 63u];
  }
  const size_t missing = (3 - bytes.size() % 3) % 3;
  return text.replace(text.size() - missing, missing, missing, '=');
}

EmbeddingWriter::EmbeddingWriter(ResponseSettings settings_in, EmbeddingSettings format,
                                 std::shared_ptr<ResponseSink> sink)
    : ResponseWriter(std::move(settings_in), std::move(sink)),
      format_(format),
      embeddings_(settings().prompts.size()) {}

void EmbeddingWriter::add_embedding(size_t prompt, std::vector<float>&& embedding) {
  embeddings_[prompt] = scaled_embedding(std::move(embedding), format_);
}

std::string EmbeddingWriter::error_body(const ApiError& error) {
  return is_ollama(format_.form) ? ollama_error_json(error) : openai_error_json(error);
}

// Numbers have as many digits as an fp32 value needs.
std::string EmbeddingWriter::text_of(const std::vector<float>& embedding) const {
  if (format_.base64) return fmt::format("\"{}\"", base64_of_floats(embedding));
  return fmt::format("[{}]", fmt::join(embedding, ","));
}

std::string EmbeddingWriter::openai_body() const {
  std::string list;
  for (size_t i = 0; i < embeddings_.size(); ++i)
    list += fmt::format(R"({}{{"object":"embedding","index":{},"embedding":{}}})", i > 0 ? "," : "",
                        i, text_of(embeddings_[i]));
  return fmt::format(
      R"({{"object":"list","data":[{}],"model":{},"usage":{{"prompt_tokens":{},"total_tokens":{}}}}})",
      list, dump_json(settings().model), counts().prompt, counts().prompt);
}

std::string EmbeddingWriter::ollama_body() const {
  if (format_.form == EmbeddingForm::kOllamaOld)
    return fmt::format(R"({{"embedding":{}}})", text_of(embeddings_.front()));
  const auto since = [&](Clock::time_point end) {
    const auto time = std::chrono::duration_cast<std::chrono::nanoseconds>(end - arrived_).count();
    return std::max<int64_t>(time, 1);
  };
  std::string list;
  for (const auto& embedding : embeddings_) list += (list.empty() ? "" : ",") + text_of(embedding);
  return fmt::format(
      R"({{"model":{},"embeddings":[{}],"total_duration":{},"load_duration":{},"prompt_eval_count":{}}})",
      dump_json(settings().model), list, since(Clock::now()), since(started_), counts().prompt);
}

// llama.cpp puts each embedding into one more list, because without pooling there is one per token.
std::string EmbeddingWriter::llama_body() const {
  std::string list;
  for (size_t i = 0; i < embeddings_.size(); ++i)
    list += fmt::format(R"({}{{"index":{},"embedding":[{}]}})", i > 0 ? "," : "", i,
                        text_of(embeddings_[i]));
  return fmt::format("[{}]", list);
}

void EmbeddingWriter::send_rest() {
  for (const auto& embedding : embeddings_) {
    if (std::ranges::all_of(embedding, [](float value) { return std::isfinite(value); })) continue;
    const ApiError error = internal_error("an embedding has values that are not finite");
    return sink().response(error.status, error_body(error));
  }
  sink().response(200, is_ollama(format_.form)                 ? ollama_body()
                       : format_.form == EmbeddingForm::kLlama ? llama_body()
                                                               : openai_body());
}

}  // namespace neuronmm::serve
