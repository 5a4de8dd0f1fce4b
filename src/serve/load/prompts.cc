#include "serve/load/prompts.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "io/json_file.h"
#include "text/utf8.h"

namespace neuronmm::load {
namespace {

using text::TokenId;

// Texts of a length in tokens, out of tokens that are words of their own: whole characters, nothing
// that a control character could do to a terminal or a template.
class RandomTexts {
 public:
  static Result<RandomTexts> make(const text::Tokenizer& tokenizer, uint64_t seed) {
    RandomTexts texts(tokenizer, seed);
    for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
      if (!tokenizer.is_special(id) && is_word(tokenizer.token_bytes(id)))
        texts.words_.push_back(id);
    }
    if (texts.words_.empty()) return fail("the tokenizer has no tokens to make random prompts of");
    return texts;
  }

  // Neighbours merge into other tokens, so that a text is made shorter or longer until it fits.
  Result<std::string> text(int64_t length) {
    constexpr int kRounds = 16;
    std::vector<TokenId> ids;
    for (int64_t i = 0; i < length; ++i) ids.push_back(word());
    std::string best;
    int64_t best_gap = std::numeric_limits<int64_t>::max();
    for (int round = 0; round < kRounds && best_gap != 0; ++round) {
      const std::string text = tokenizer_->decode(ids);
      NMM_ASSIGN(const auto read, tokenizer_->encode(text));
      const int64_t gap = length - static_cast<int64_t>(read.size());
      if (std::abs(gap) < best_gap) best = text;
      best_gap = std::min(best_gap, std::abs(gap));
      for (int64_t i = 0; i < gap; ++i) ids.push_back(word());
      ids.resize(std::max<int64_t>(1, std::ssize(ids) + std::min<int64_t>(gap, 0)));
    }
    return best;
  }

  int64_t length(int64_t wanted, double spread) {
    const double least = std::floor(static_cast<double>(wanted) * (1.0 - spread));
    const double most = std::ceil(static_cast<double>(wanted) * (1.0 + spread));
    std::uniform_int_distribution<int64_t> lengths(std::max<int64_t>(1, std::llround(least)),
                                                   std::max<int64_t>(1, std::llround(most)));
    return lengths(random_);
  }

 private:
  RandomTexts(const text::Tokenizer& tokenizer, uint64_t seed)
      : tokenizer_(&tokenizer), random_(seed) {}

  static bool is_word(std::string_view bytes) {
    return !bytes.empty() && text::valid_utf8_length(bytes) == std::ssize(bytes) &&
           std::ranges::all_of(bytes, [](char c) { return static_cast<uint8_t>(c) >= 0x20; });
  }
  TokenId word() {
    return words_[std::uniform_int_distribution<size_t>(0, words_.size() - 1)(random_)];
  }

  const text::Tokenizer* tokenizer_;
  std::mt19937_64 random_;
  std::vector<TokenId> words_;
};

Result<std::string> common_prefix(const text::Tokenizer& tokenizer,
                                  const PromptSettings& settings) {
  if (settings.prefix_tokens == 0) return std::string();
  constexpr uint64_t kPrefixStream = 0x9e3779b97f4a7c15;
  NMM_ASSIGN(RandomTexts texts, RandomTexts::make(tokenizer, settings.seed ^ kPrefixStream));
  return texts.text(settings.prefix_tokens);
}

Status count_tokens(const text::Tokenizer& tokenizer, std::string_view text, int64_t& count) {
  NMM_ASSIGN(const auto ids, tokenizer.encode(text));
  count += std::ssize(ids);
  return {};
}

// The prefix goes before what is said first; the tokens are those of all contents that are strings.
Result<LoadPrompt> chat_prompt(nlohmann::json messages, const std::string& prefix,
                               const std::string& source, const text::Tokenizer& tokenizer) {
  LoadPrompt prompt;
  bool begun = false;
  for (nlohmann::json& message : messages) {
    if (!message.is_object()) return fail("{}: \"messages\": expected objects", source);
    const auto content = message.find("content");
    if (content == message.end() || !content->is_string()) continue;
    if (!std::exchange(begun, true)) *content = prefix + content->get<std::string>();
    NMM_TRY(count_tokens(tokenizer, content->get_ref<const std::string&>(), prompt.tokens));
  }
  if (!begun) return fail("{}: \"messages\" has no text", source);
  prompt.messages = std::move(messages);
  return prompt;
}

Result<LoadPrompt> text_prompt(std::string text, const std::string& source,
                               const text::Tokenizer& tokenizer) {
  LoadPrompt prompt;
  if (text.empty()) return fail("{}: the prompt is empty", source);
  NMM_TRY(count_tokens(tokenizer, text, prompt.tokens));
  prompt.text = std::move(text);
  return prompt;
}

Result<LoadPrompt> json_prompt(std::string_view line, const std::string& prefix,
                               const std::string& source, const text::Tokenizer& tokenizer) {
  NMM_ASSIGN(const auto object, io::parse_json_object(line, source));
  const io::JsonFields fields(object, source);
  NMM_ASSIGN(const auto text, fields.string("prompt"));
  NMM_ASSIGN(const auto max_tokens, fields.integer("max_tokens"));
  if (max_tokens && *max_tokens < 1) return fields.wrong("max_tokens", "a number from 1");
  const auto* messages = fields.find("messages");
  if (text.has_value() == (messages != nullptr))
    return fail("{}: expected either \"prompt\" or \"messages\"", source);
  if (messages != nullptr && !messages->is_array()) return fields.wrong("messages", "an array");
  NMM_ASSIGN(LoadPrompt prompt, text ? text_prompt(prefix + *text, source, tokenizer)
                                     : chat_prompt(*messages, prefix, source, tokenizer));
  prompt.max_tokens = max_tokens.value_or(0);
  return prompt;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t length = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, length);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return lines;
}

}  // namespace

Result<std::vector<LoadPrompt>> random_prompts(const text::Tokenizer& tokenizer,
                                               const PromptSettings& settings) {
  NMM_ASSIGN(const std::string prefix, common_prefix(tokenizer, settings));
  NMM_ASSIGN(RandomTexts texts, RandomTexts::make(tokenizer, settings.seed));
  std::vector<LoadPrompt> prompts;
  for (int64_t i = 0; i < settings.count; ++i) {
    NMM_ASSIGN(std::string text, texts.text(texts.length(settings.prompt_tokens, settings.spread)));
    NMM_ASSIGN(LoadPrompt prompt, text_prompt(prefix + text, "random prompt", tokenizer));
    prompt.max_tokens = texts.length(settings.new_tokens, settings.spread);
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

Result<std::vector<LoadPrompt>> file_prompts(std::string_view text, const std::string& source,
                                             const text::Tokenizer& tokenizer,
                                             const PromptSettings& settings) {
  NMM_ASSIGN(const std::string prefix, common_prefix(tokenizer, settings));
  const bool is_json = text.starts_with('{');
  std::vector<LoadPrompt> read;
  const auto lines = lines_of(text);
  for (size_t i = 0; i < lines.size() && std::ssize(read) < settings.count; ++i) {
    if (lines[i].find_first_not_of(" \t") == std::string_view::npos) continue;
    const std::string place = fmt::format("{}:{}", source, i + 1);
    NMM_ASSIGN(LoadPrompt prompt,
               is_json ? json_prompt(lines[i], prefix, place, tokenizer)
                       : text_prompt(prefix + std::string(lines[i]), place, tokenizer));
    if (prompt.max_tokens == 0) prompt.max_tokens = settings.new_tokens;
    read.push_back(std::move(prompt));
  }
  if (read.empty()) return fail("{}: expected prompts, found none", source);
  const size_t lines_read = read.size();
  for (size_t i = lines_read; i < static_cast<size_t>(settings.count); ++i)
    read.push_back(read[i % lines_read]);
  return read;
}

}  // namespace neuronmm::load
