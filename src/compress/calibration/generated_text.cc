#include "compress/calibration/generated_text.h"

#include <algorithm>

#include "io/checksum.h"
#include "model/self_generated.h"

namespace neuronmm::compress {
namespace {

// The length of a generated sequence, in tokens. Assumed: text that a model writes drifts away as
// it gets longer, and many beginnings give more diverse text.
constexpr int64_t kGeneratedLength = 512;

using Sequences = std::vector<std::vector<text::TokenId>>;

// Shortens the last sequence, or removes it, so that at most `tokens` tokens remain. Every other
// sequence has `length` tokens. A last sequence of one token is removed.
void cut_to(int64_t tokens, int64_t length, Sequences& sequences) {
  const int64_t rest = tokens - (std::ssize(sequences) - 1) * length;
  if (rest < 2) {
    sequences.pop_back();
  } else {
    sequences.back().resize(static_cast<size_t>(rest));
  }
}

io::CalibrationSource source_of_generated(const Sequences& sequences, uint64_t seed) {
  std::string bytes;
  for (const auto& sequence : sequences) {
    bytes.append(reinterpret_cast<const char*>(sequence.data()),
                 sequence.size() * sizeof(text::TokenId));
  }
  io::CalibrationSource source;
  source.name = fmt::format("written by the model, seed {}", seed);
  source.xxh3 = io::checksum(bytes);
  source.bytes = std::ssize(bytes);
  for (const auto& sequence : sequences) source.tokens += std::ssize(sequence);
  return source;
}

}  // namespace

Status check_generated(const GeneratedText& wanted, const io::ModelConfig& config) {
  if (wanted.tokens > config.hidden_size) return {};
  return fail(
      "self-generated: expected more than {} tokens (the model's hidden_size; {} are enough), "
      "found {}",
      config.hidden_size, enough_tokens(config), wanted.tokens);
}

Result<CalibrationSequences> generated_sequences(const GeneratedText& wanted,
                                                 const io::ModelConfig& config,
                                                 const ops::Backend& backend,
                                                 const std::filesystem::path& work,
                                                 Progress& progress) {
  const int64_t length = std::min(kGeneratedLength, config.max_position_embeddings);
  CalibrationSequences text;
  NMM_ASSIGN(text.sequences,
             model::self_generated({wanted.model, wanted.tokens, length, wanted.seed}, work,
                                   backend, progress));
  cut_to(wanted.tokens, length, text.sequences);
  text.origin.sources.push_back(source_of_generated(text.sequences, wanted.seed));
  const io::CalibrationSource& source = text.origin.sources.front();
  text.origin.tokens = source.tokens;
  text.origin.text = fmt::format("{} xxh3:{}", source.name, source.xxh3);
  text.few = source.tokens < enough_tokens(config);
  choose_measured({}, length, text);
  return text;
}

}  // namespace neuronmm::compress
