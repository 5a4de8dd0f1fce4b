#include "eval/reference_logits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "io/json_file.h"
#include "model/generate.h"

namespace neuronmm::eval {
namespace {

using text::TokenId;

// Ids are checked against this model, because a recording with another vocabulary would compare
// unrelated logits.
Result<std::vector<TokenId>> parse_sequence(const nlohmann::json& json, const std::string& where,
                                            const io::ModelConfig& config) {
  if (!json.is_array() || json.empty()) {
    return fail("{}: expected a list of token ids, not empty, found {}", where,
                json.is_array() ? "[]" : json.type_name());
  }
  if (std::ssize(json) > config.max_position_embeddings) {
    return fail("{}: expected at most {} tokens (the model's max_position_embeddings), found {}",
                where, config.max_position_embeddings, json.size());
  }
  std::vector<TokenId> tokens;
  for (const nlohmann::json& id : json) {
    if (!id.is_number_integer() || id < 0 || id >= config.vocab_size) {
      return fail("{}[{}]: expected a token id below the model's vocab_size {}, found {}", where,
                  tokens.size(), config.vocab_size,
                  id.is_number() ? id.dump() : std::string("a ") + id.type_name());
    }
    tokens.push_back(id.get<TokenId>());
  }
  return tokens;
}

// Reads one logit per token of the vocabulary. Numbers that do not fit into fp32 are refused
// instead of turned into infinity.
Status parse_row(const nlohmann::json& json, const std::string& where, std::span<float> row) {
  if (!json.is_array() || json.size() != row.size()) {
    return fail("{}: expected {} numbers (the model's vocab_size), found {}", where, row.size(),
                json.is_array() ? std::to_string(json.size()) : json.type_name());
  }
  for (size_t i = 0; i < row.size(); ++i) {
    if (!json[i].is_number()) {
      return fail("{}[{}]: expected a number, found a {}", where, i, json[i].type_name());
    }
    const double value = json[i].get<double>();
    if (std::abs(value) > std::numeric_limits<float>::max()) {
      return fail("{}[{}]: expected a number that fits fp32, found {}", where, i, value);
    }
    row[i] = static_cast<float>(value);
  }
  return {};
}

// Reads one row per token; row i predicts token i + 1.
Result<Matrix> parse_logits(const nlohmann::json& json, const std::string& where, int64_t positions,
                            int64_t vocab_size) {
  if (!json.is_array() || std::ssize(json) != positions) {
    return fail("{}: expected {} rows, one for each token of its sequence, found {}", where,
                positions, json.is_array() ? std::to_string(json.size()) : json.type_name());
  }
  Matrix logits(positions, vocab_size);
  for (int64_t i = 0; i < positions; ++i) {
    NMM_TRY(parse_row(json[i], fmt::format("{}[{}]", where, i),
                      {logits.row(i), static_cast<size_t>(vocab_size)}));
  }
  return logits;
}

// Checks all prompts before anything is computed. Otherwise a prompt that is too long would be
// found after minutes.
Status check_prompts(const io::ModelConfig& config, std::span<const std::vector<TokenId>> prompts,
                     int64_t new_tokens) {
  const int64_t limit = config.max_position_embeddings;
  if (new_tokens < 1) return fail("new_tokens: expected at least 1, found {}", new_tokens);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const int64_t length = std::ssize(prompts[i]);
    if (length == 0) return fail("prompt {} has no tokens", i + 1);
    if (length <= limit && new_tokens <= limit - length) continue;
    return fail(
        "prompt {}: its {} tokens and new_tokens {} do not fit the reference's "
        "max_position_embeddings {}",
        i + 1, length, new_tokens, limit);
  }
  return {};
}

// Refuses reference logits that are not finite, which would make every comparison fail for the
// wrong reason.
Status check_finite(const ReferenceSequence& sequence) {
  const Matrix& logits = sequence.logits;
  for (int64_t i = 0; i < logits.rows(); ++i) {
    if (std::all_of(logits.row(i), logits.row(i) + logits.columns(),
                    [](float logit) { return std::isfinite(logit); })) {
      continue;
    }
    return fail("the reference's logits at position {} are not finite",
                sequence.first_position + i);
  }
  return {};
}

}  // namespace

// The KV cache holds fp32 whatever the model's dtype, because rounding keys and values would add an
// error that is not the model's.
Matrix position_logits(const model::Transformer& transformer, std::span<const TokenId> tokens,
                       int64_t first_position) {
  using Logits = model::Transformer::Logits;
  const auto cache = transformer.make_cache(std::ssize(tokens), DType::kF32);
  cache->set_expected_tokens(std::ssize(tokens));
  // Positions before the first wanted one only fill the cache.
  if (first_position > 0) transformer.forward(tokens.first(first_position), *cache, Logits::kNone);
  return transformer.forward(tokens.subspan(first_position), *cache, Logits::kAll);
}

Result<ReferenceLogits> parse_reference_logits(std::string_view json_text,
                                               const std::string& source,
                                               const io::ModelConfig& config) {
  NMM_ASSIGN(const nlohmann::json json, io::parse_json(json_text, source));
  for (const char* key : {"sequences", "logits"}) {
    if (json.is_object() && json.contains(key) && json[key].is_array()) continue;
    return fail(
        "{}: expected an object with the lists \"sequences\" and \"logits\", found no "
        "list \"{}\"",
        source, key);
  }
  const nlohmann::json &sequences = json["sequences"], &logits = json["logits"];
  if (sequences.empty()) return fail("{}: \"sequences\" is empty", source);
  if (sequences.size() != logits.size()) {
    return fail("{}: {} sequences but {} lists of logits", source, sequences.size(), logits.size());
  }
  ReferenceLogits reference;
  for (size_t i = 0; i < sequences.size(); ++i) {
    ReferenceSequence sequence;
    NMM_ASSIGN(sequence.tokens,
               parse_sequence(sequences[i], fmt::format("{}: sequences[{}]", source, i), config));
    NMM_ASSIGN(sequence.logits, parse_logits(logits[i], fmt::format("{}: logits[{}]", source, i),
                                             std::ssize(sequence.tokens), config.vocab_size));
    reference.push_back(std::move(sequence));
  }
  return reference;
}

// Generates the greedy tokens first and then computes all logits in one pass with these tokens
// given.
Result<ReferenceLogits> record_reference_logits(const model::Transformer& reference,
                                                std::span<const std::vector<TokenId>> prompts,
                                                int64_t new_tokens, Progress& progress) {
  NMM_TRY(check_prompts(reference.config(), prompts, new_tokens));
  ReferenceLogits recorded;
  progress.start("recording the reference", std::ssize(prompts));
  for (const std::vector<TokenId>& prompt : prompts) {
    model::GenerateOptions options;
    options.max_new_tokens = new_tokens;
    NMM_ASSIGN(const model::Generation generation, model::generate(reference, prompt, options));
    if (interrupted()) return interrupted_error("no logits were recorded");
    ReferenceSequence sequence;
    sequence.first_position = std::ssize(prompt) - 1;
    sequence.tokens = prompt;
    sequence.tokens.insert(sequence.tokens.end(), generation.tokens.begin(),
                           generation.tokens.end() - 1);  // the last token predicts nothing
    sequence.logits = position_logits(reference, sequence.tokens, sequence.first_position);
    NMM_TRY(check_finite(sequence));
    recorded.push_back(std::move(sequence));
    progress.update(std::ssize(recorded));
  }
  progress.finish();
  return recorded;
}

}  // namespace neuronmm::eval
