#include "compress/finetune/dataset.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "model/transformer.h"

namespace neuronmm::finetune {
namespace {

using text::TokenId;

// The line on which each element of a JSON list of objects begins. The text is known to be JSON.
std::vector<int64_t> element_lines(std::string_view text) {
  std::vector<int64_t> lines;
  int64_t line = 1, depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth == 2) lines.push_back(line);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return lines;
}

// From instruction and response to tokens, with a count of what did not fit.
class InstructionReader {
 public:
  InstructionReader(const text::Tokenizer& tokenizer, const io::ModelConfig& config, int64_t cutoff)
      : tokenizer_(tokenizer), config_(config), cutoff_(static_cast<size_t>(cutoff)) {
    if (const auto eos = tokenizer.eos_id()) {
      eos_ = *eos;
    } else if (!config.eos_token_ids.empty()) {
      eos_ = static_cast<TokenId>(config.eos_token_ids.front());
    }
  }

  // `where` begins every message: "data.json:17".
  Status add(const nlohmann::json& record, const std::string& where) {
    if (!record.is_object()) {
      return fail("{}: expected an object with \"instruction\" and \"output\", found {}", where,
                  io::describe_json(record));
    }
    const io::JsonFields fields(record, where);
    NMM_ASSIGN(const auto instruction, fields.string("instruction"));
    NMM_ASSIGN(const auto input, fields.string("input"));
    NMM_ASSIGN(const auto output, fields.string("output"));
    if (!instruction) return fields.missing("instruction");
    if (!output) return fields.missing("output");
    return add(alpaca_prompt(*instruction, input.value_or("")), *output, where);
  }
  Dataset take() { return std::move(dataset_); }

 private:
  Status add(const std::string& prompt, const std::string& response, const std::string& where) {
    Example example;
    example.tokens = tokenizer_.encode(prompt + response);
    const Status ids = model::check_token_ids(example.tokens, config_);
    if (!ids.ok()) return fail("{}: {}", where, ids.error().message);
    if (example.tokens.size() > cutoff_) ++dataset_.truncated;
    example.tokens.resize(std::min(example.tokens.size(), cutoff_));
    if (eos_ && example.tokens.size() < cutoff_ && example.tokens.back() != *eos_) {
      example.tokens.push_back(*eos_);
    }
    const auto prompt_tokens = static_cast<int64_t>(tokenizer_.encode(prompt).size());
    example.scored_from = std::max<int64_t>(1, prompt_tokens);
    if (example.scored_tokens() > 0) {
      dataset_.examples.push_back(std::move(example));
    } else {
      ++dataset_.skipped;
    }
    return {};
  }

  const text::Tokenizer& tokenizer_;
  const io::ModelConfig& config_;
  size_t cutoff_;
  std::optional<TokenId> eos_;
  Dataset dataset_;
};

Status read_list(std::string_view content, const std::string& source, InstructionReader& reader) {
  NMM_ASSIGN(const auto list, io::parse_json(content, source));
  if (!list.is_array()) {
    return fail("{}: expected a list of objects with \"instruction\" and \"output\", found {}",
                source, io::describe_json(list));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    // Lines are known of objects and lists only; the first of another kind is the error.
    if (!list[i].is_structured()) {
      return fail("{}: record {}: expected an object, found {}", source, i + 1,
                  io::describe_json(list[i]));
    }
  }
  const std::vector<int64_t> lines = element_lines(content);
  for (size_t i = 0; i < list.size(); ++i) {
    NMM_TRY(reader.add(list[i], fmt::format("{}:{}", source, lines[i])));
  }
  return {};
}

Status read_lines(std::string_view content, const std::string& source, InstructionReader& reader) {
  for (int64_t line = 1; !content.empty(); ++line) {
    const size_t end = content.find('\n');
    const std::string_view text = content.substr(0, end);
    content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}:{}", source, line);
    NMM_ASSIGN(const auto record, io::parse_json(text, where));
    NMM_TRY(reader.add(record, where));
  }
  return {};
}

Result<Dataset> read_text(std::string_view content, const std::string& source,
                          const text::Tokenizer& tokenizer, const io::ModelConfig& config,
                          int64_t cutoff) {
  const std::vector<TokenId> tokens = tokenizer.encode(content);
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
  InstructionReader reader(tokenizer, config, cutoff);
  NMM_TRY(list ? read_list(content, path.string(), reader)
               : read_lines(content, path.string(), reader));
  return reader.take();
}

}  // namespace

std::string alpaca_prompt(std::string_view instruction, std::string_view input) {
  if (input.empty()) {
    return fmt::format(
        "Below is an instruction that describes a task. Write a response that appropriately "
        "completes the request.\n\n### Instruction:\n{}\n\n### Response:\n",
        instruction);
  }
  return fmt::format(
      "Below is an instruction that describes a task, paired with an input that provides further "
      "context. Write a response that appropriately completes the request.\n\n### "
      "Instruction:\n{}\n\n### Input:\n{}\n\n### Response:\n",
      instruction, input);
}

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
