#include "finetune/dataset.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "model/transformer.h"
#include "text/chat_template.h"
#include "text/documents.h"
#include "text/training_records.h"

namespace neuronmm::finetune {
namespace {

using text::TokenId;

// Cuts the tokens into pieces of `cutoff` tokens. All tokens of a piece are scored except its
// first. A last piece of one token has nothing to predict and is left out.
void cut(const std::vector<TokenId>& tokens, int64_t cutoff, Dataset& dataset) {
  const auto count = static_cast<int64_t>(tokens.size());
  for (int64_t first = 0; first + 1 < count; first += cutoff) {
    const auto begin = tokens.begin() + first;
    dataset.examples.push_back({{begin, begin + std::min(cutoff, count - first)}});
  }
}

// Turns records into token sequences and counts the records that do not fit.
class RecordEncoder {
 public:
  RecordEncoder(const text::Tokenizer& tokenizer, const io::ModelConfig& config,
                const std::string& source, int64_t cutoff)
      : tokenizer_(tokenizer),
        config_(config),
        source_(source),
        cutoff_(static_cast<size_t>(cutoff)) {
    // The tokenizer knows the end of text if its files name it; otherwise the model's config does.
    if (const auto eos = tokenizer.eos_id()) {
      eos_ = *eos;
    } else if (!config.eos_token_ids.empty()) {
      eos_ = static_cast<TokenId>(config.eos_token_ids.front());
    }
  }

  Status add(const text::TrainingRecord& record) {
    const auto added =
        std::visit([this](const auto& content) { return add(content); }, record.content);
    if (added.ok()) return {};
    return fail("{}:{}: {}", source_, record.line, added.error().message);
  }

  Result<Dataset> take() {
    if (!documents_.empty()) {
      auto tokens = text::encode_documents(tokenizer_, documents_);
      if (!tokens.ok()) return fail("{}: {}", source_, tokens.error().message);
      const Status ids = model::check_token_ids(*tokens, config_);
      if (!ids.ok()) return fail("{}: {}", source_, ids.error().message);
      cut(*tokens, static_cast<int64_t>(cutoff_), dataset_);
    }
    return std::move(dataset_);
  }

 private:
  Status add(const text::Instruction& instruction) {
    NMM_ASSIGN(auto tokens, tokenizer_.encode(instruction.prompt + instruction.response));
    NMM_ASSIGN(const auto prompt, tokenizer_.encode(instruction.prompt));
    // The end of text is learned only where the response was not cut off.
    if (eos_ && tokens.size() < cutoff_ && tokens.back() != *eos_) tokens.push_back(*eos_);
    return add(std::move(tokens), std::ssize(prompt));
  }

  Status add(const std::string& document) {
    documents_.push_back(document);
    return {};
  }

  // Adds a whole conversation. The chat template itself writes what ends an answer. The prompt is
  // the part before the assistant's first answer. It is found by applying the template to the
  // messages before that answer, with and without the text that asks for an answer.
  Status add(const text::Conversation& chat) {
    text::Conversation whole = chat, before = chat;
    const auto is_answer = [](const text::Conversation::Json& message) {
      return message.value("role", "") == "assistant";
    };
    const auto first = std::ranges::find_if(chat.messages, is_answer);
    if (first == chat.messages.end())
      return fail("expected an answer of the assistant, found none");
    before.messages.erase(before.messages.begin() + (first - chat.messages.begin()),
                          before.messages.end());
    whole.add_generation_prompt = false;
    NMM_ASSIGN(const auto text, text::apply_chat_template(tokenizer_, whole));
    NMM_ASSIGN(auto tokens, encode(text));
    for (const bool asks : {true, false}) {
      before.add_generation_prompt = asks;
      const auto prompt = text::apply_chat_template(tokenizer_, before);
      if (!prompt.ok() || !text.text.starts_with(prompt->text)) continue;
      NMM_ASSIGN(const auto prompt_tokens, encode(*prompt));
      return add(std::move(tokens), std::ssize(prompt_tokens));
    }
    return add(std::move(tokens), 1);
  }

  Result<std::vector<TokenId>> encode(const text::ChatPrompt& prompt) const {
    return tokenizer_.encode(prompt.text,
                             {.add_special_tokens = false, .literal = prompt.from_messages});
  }

  Status add(std::vector<TokenId> tokens, int64_t prompt_tokens) {
    NMM_TRY(model::check_token_ids(tokens, config_));
    if (tokens.size() > cutoff_) ++dataset_.truncated;
    tokens.resize(std::min(tokens.size(), cutoff_));
    Example example{std::move(tokens), std::max<int64_t>(1, prompt_tokens)};
    if (example.scored_tokens() > 0) {
      dataset_.examples.push_back(std::move(example));
    } else {
      ++dataset_.skipped;
    }
    return {};
  }

  const text::Tokenizer& tokenizer_;
  const io::ModelConfig& config_;
  const std::string& source_;
  size_t cutoff_;
  std::optional<TokenId> eos_;
  std::vector<std::string> documents_;
  Dataset dataset_;
};

Result<Dataset> read_text(std::string_view content, const std::string& source,
                          const text::Tokenizer& tokenizer, const io::ModelConfig& config,
                          int64_t cutoff) {
  auto tokens = tokenizer.encode(content);
  if (!tokens.ok()) return fail("{}: {}", source, tokens.error().message);
  const Status ids = model::check_token_ids(*tokens, config);
  if (!ids.ok()) return fail("{}: {}", source, ids.error().message);
  Dataset dataset;
  cut(*tokens, cutoff, dataset);
  return dataset;
}

// Reads the file by its ending: .json is a list, .jsonl has a record per line, and everything else
// is text.
Result<Dataset> read_any(std::string_view content, const std::filesystem::path& path,
                         const text::Tokenizer& tokenizer, const io::ModelConfig& config,
                         int64_t cutoff) {
  const bool list = path.extension() == ".json";
  if (!list && path.extension() != ".jsonl") {
    return read_text(content, path.string(), tokenizer, config, cutoff);
  }
  const std::string source = path.string();
  NMM_ASSIGN(const auto records, list ? text::parse_record_list(content, source)
                                      : text::parse_record_lines(content, source));
  RecordEncoder encoder(tokenizer, config, source, cutoff);
  for (const text::TrainingRecord& record : records) NMM_TRY(encoder.add(record));
  return encoder.take();
}

}  // namespace

// Refuses a file without examples, because training on nothing would look like success.
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
