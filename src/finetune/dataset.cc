#include "finetune/dataset.h"

#include <algorithm>

#include "model/transformer.h"
#include "text/instructions.h"

namespace neuronmm::finetune {
namespace {

using text::TokenId;

// From instruction and response to tokens, with a count of what did not fit.
class InstructionEncoder {
 public:
  InstructionEncoder(const text::Tokenizer& tokenizer, const io::ModelConfig& config,
                     int64_t cutoff)
      : tokenizer_(tokenizer), config_(config), cutoff_(static_cast<size_t>(cutoff)) {
    if (const auto eos = tokenizer.eos_id()) {
      eos_ = *eos;
    } else if (!config.eos_token_ids.empty()) {
      eos_ = static_cast<TokenId>(config.eos_token_ids.front());
    }
  }

  // `source` begins every message.
  Status add(const text::Instruction& instruction, const std::string& source) {
    Example example;
    NMM_ASSIGN(example.tokens,
               encode(instruction.prompt + instruction.response, source, instruction.line));
    const Status ids = model::check_token_ids(example.tokens, config_);
    if (!ids.ok()) return fail("{}:{}: {}", source, instruction.line, ids.error().message);
    if (example.tokens.size() > cutoff_) ++dataset_.truncated;
    example.tokens.resize(std::min(example.tokens.size(), cutoff_));
    if (eos_ && example.tokens.size() < cutoff_ && example.tokens.back() != *eos_) {
      example.tokens.push_back(*eos_);
    }
    NMM_ASSIGN(const auto prompt, encode(instruction.prompt, source, instruction.line));
    example.scored_from = std::max<int64_t>(1, std::ssize(prompt));
    if (example.scored_tokens() > 0) {
      dataset_.examples.push_back(std::move(example));
    } else {
      ++dataset_.skipped;
    }
    return {};
  }
  Dataset take() { return std::move(dataset_); }

 private:
  Result<std::vector<TokenId>> encode(const std::string& text, const std::string& source,
                                      int64_t line) const {
    auto tokens = tokenizer_.encode(text);
    if (!tokens.ok()) return fail("{}:{}: {}", source, line, tokens.error().message);
    return tokens;
  }

  const text::Tokenizer& tokenizer_;
  const io::ModelConfig& config_;
  size_t cutoff_;
  std::optional<TokenId> eos_;
  Dataset dataset_;
};

Result<Dataset> read_text(std::string_view content, const std::string& source,
                          const text::Tokenizer& tokenizer, const io::ModelConfig& config,
                          int64_t cutoff) {
  auto encoded = tokenizer.encode(content);
  if (!encoded.ok()) return fail("{}: {}", source, encoded.error().message);
  const std::vector<TokenId>& tokens = *encoded;
  const Status ids = model::check_token_ids(tokens, config);
  if (!ids.ok()) return fail("{}: {}", source, ids.error().message);
  Dataset dataset;
  const auto count = static_cast<int64_t>(tokens.size());
  for (int64_t first = 0; first + 1 < count; first += cutoff) {
    const auto begin = tokens.begin() + first;
    dataset.examples.push_back({{begin, begin + std::min(cutoff, count - first)}});
  }
  return dataset;
}

Result<Dataset> read_any(std::string_view content, const std::filesystem::path& path,
                         const text::Tokenizer& tokenizer, const io::ModelConfig& config,
                         int64_t cutoff) {
  const bool list = path.extension() == ".json";
  if (!list && path.extension() != ".jsonl") {
    return read_text(content, path.string(), tokenizer, config, cutoff);
  }
  const std::string source = path.string();
  NMM_ASSIGN(const auto instructions, list ? text::parse_instruction_list(content, source)
                                           : text::parse_instruction_lines(content, source));
  InstructionEncoder encoder(tokenizer, config, cutoff);
  for (const text::Instruction& instruction : instructions) {
    NMM_TRY(encoder.add(instruction, source));
  }
  return encoder.take();
}

}  // namespace

Result<Dataset> read_dataset(std::string_view content, const std::filesystem::path& path,
                             const text::Tokenizer& tokenizer, const io::ModelConfig& config,
                             int64_t cutoff) {
  NMM_ASSIGN(Dataset dataset, read_any(content, path, tokenizer, config, cutoff));
  if (!dataset.examples.empty()) return dataset;
  if (dataset.skipped > 0) {
    return fail(
        "{}: the prompts of all {} examples reach the cut-off of {} tokens; use a larger one",
        path.string(), dataset.skipped, cutoff);
  }
  return fail("{}: expected training examples, found none", path.string());
}

}  // namespace neuronmm::finetune
