#include "serve/protocol/infill.h"

#include <algorithm>
#include <utility>

#include "serve/protocol/prompt.h"

namespace neuronmm::serve {
namespace {

struct Family {
  const char *prefix, *suffix, *middle;  // an empty middle: there is none
  bool suffix_first = false;
};

// The names in llama.cpp's src/llama-vocab.cpp, and those of two families that put the suffix
// first.
constexpr Family kFamilies[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},        // Qwen, CodeGemma
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},              // StarCoder, Granite
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},              // SantaCoder
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},        // DeepSeek-Coder
    {"▁<PRE>", "▁<SUF>", "▁<MID>"},                                // CodeLlama
    {"<PRE>", "<SUF>", "<MID>"},                                   // other spellings of it
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},     // GLM-4.5
    {"<|prefix|>", "<|suffix|>", "<|middle|>"},                    // Falcon-H1
    {"<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", true},  // Seed-Coder
    {"[PREFIX]", "[SUFFIX]", "", true},                            // Codestral
};
constexpr const char* kRepositories[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
                                         "<REPO>",       "<reponame>",    "<repo_name>"};
constexpr const char* kFiles[] = {"<|file_sep|>", "<|file_separator|>", "<file_sep>"};
// Other tokens with which models end the middle.
constexpr const char* kEnds[] = {
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>",     "<PAD>",
    "▁<EOT>",      "<EOT>",     "<|endoftext|>", "<｜end▁of▁sentence｜>"};

// The tokens around the place to fill. Documented: llama.cpp's default of n_batch.
constexpr int64_t kWindow = 2048;
// The most tokens that stand around the parts: those of InfillTokens, and one for the beginning of
// a text.
constexpr int64_t kMarkers = 4;

std::optional<TokenId> first_known(const text::Tokenizer& tokenizer, const auto& names) {
  for (const char* name : names) {
    if (const auto id = tokenizer.token_to_id(name)) return id;
  }
  return std::nullopt;
}

std::optional<InfillTokens> tokens_of(const text::Tokenizer& tokenizer, const Family& family) {
  const auto prefix = tokenizer.token_to_id(family.prefix);
  const auto suffix = tokenizer.token_to_id(family.suffix);
  const bool has_middle = *family.middle != '\0';
  const auto middle = has_middle ? tokenizer.token_to_id(family.middle) : std::nullopt;
  if (!prefix || !suffix || (has_middle && !middle)) return std::nullopt;
  return InfillTokens{
      .prefix = *prefix, .suffix = *suffix, .middle = middle, .suffix_first = family.suffix_first};
}

// Returns the token that the tokenizer puts before every text; nothing if there is none.
std::vector<TokenId> begin_of_text(const ServedModel& model) {
  const auto bos = model.tokenizer->bos_id();
  const auto ids = model.tokenizer->encode("", {.add_special_tokens = true});
  const bool adds = bos && ids.ok() && !ids->empty() && ids->front() == *bos;
  return adds ? std::vector{*bos} : std::vector<TokenId>();
}

void keep_last(std::vector<TokenId>& tokens, int64_t most) {
  const int64_t excess = std::ssize(tokens) - std::max<int64_t>(most, 0);
  if (excess > 0) tokens.erase(tokens.begin(), tokens.begin() + excess);
}

void keep_first(std::vector<TokenId>& tokens, int64_t most) {
  tokens.resize(static_cast<size_t>(std::clamp<int64_t>(most, 0, std::ssize(tokens))));
}

// Returns the room for the parts if the answer gets what it asks for, but at most half.
int64_t room_for_parts(int64_t context_tokens, int64_t answer_tokens) {
  return context_tokens -
         std::clamp<int64_t>(answer_tokens, 1, std::max<int64_t>(context_tokens / 2, 1)) - kMarkers;
}

}  // namespace

ApiResult<InfillTokens> find_infill_tokens(const ServedModel& model, const std::string& param) {
  const text::Tokenizer& tokenizer = *model.tokenizer;
  for (const Family& family : kFamilies) {
    auto tokens = tokens_of(tokenizer, family);
    if (!tokens) continue;
    tokens->repository = first_known(tokenizer, kRepositories);
    tokens->file = first_known(tokenizer, kFiles);
    tokens->stops = {tokens->prefix, tokens->suffix};
    for (const auto& id : {tokens->middle, tokens->repository, tokens->file}) {
      if (id) tokens->stops.push_back(*id);
    }
    for (const char* name : kEnds) {
      if (const auto id = tokenizer.token_to_id(name)) tokens->stops.push_back(*id);
    }
    return *std::move(tokens);
  }
  return invalid_request(
      param,
      param +
          ": this model does not fill in the middle of a text, because its vocabulary has no "
          "tokens for that, such as <|fim_prefix|>, <|fim_suffix|> and <|fim_middle|>");
}

InfillLimits llama_cpp_infill_limits(int64_t context_tokens, int64_t begin_tokens,
                                     int64_t answer_tokens) {
  const int64_t room = room_for_parts(context_tokens, answer_tokens);
  const int64_t window = std::min(kWindow, room);
  return {.prefix = 3 * (window / 4),
          .suffix = window / 4 - 2 - begin_tokens,
          .repository = room - window};
}

InfillLimits whole_infill_limits(int64_t context_tokens, const InfillParts& parts,
                                 int64_t answer_tokens) {
  const int64_t room = room_for_parts(context_tokens, answer_tokens) - std::ssize(parts.begin);
  const int64_t suffix =
      std::min(std::ssize(parts.suffix), std::max(room / 4, room - std::ssize(parts.prefix)));
  return {.prefix = room - suffix, .suffix = suffix};
}

std::vector<TokenId> infill_prompt(const ServedModel& model, const InfillTokens& tokens,
                                   InfillParts parts, const InfillLimits& limits) {
  keep_last(parts.prefix, limits.prefix);
  keep_first(parts.suffix, limits.suffix);
  keep_last(parts.repository, limits.repository);
  std::vector<TokenId> prompt = begin_of_text(model);
  const auto append = [&](const std::vector<TokenId>& part) {
    prompt.insert(prompt.end(), part.begin(), part.end());
  };
  const auto append_prefix = [&] {
    prompt.push_back(tokens.prefix);
    append(parts.prefix);
    append(parts.begin);
  };
  append(parts.repository);
  if (!tokens.suffix_first) append_prefix();
  prompt.push_back(tokens.suffix);
  append(parts.suffix);
  if (tokens.suffix_first) append_prefix();
  if (tokens.middle) prompt.push_back(*tokens.middle);
  return prompt;
}

ApiResult<std::vector<TokenId>> infill_prompt(const ServedModel& model, const InfillTokens& tokens,
                                              std::vector<TokenId> prefix, std::string_view suffix,
                                              std::optional<int64_t> max_tokens) {
  InfillParts parts;
  parts.prefix = std::move(prefix);
  NMM_ASSIGN(parts.suffix, code_tokens(model, suffix, "suffix"));
  const InfillLimits limits =
      whole_infill_limits(model.context_tokens, parts, max_tokens.value_or(1));
  return infill_prompt(model, tokens, std::move(parts), limits);
}

}  // namespace neuronmm::serve
