#pragma once
// Builds the prompts with which code models fill in the middle of a text. Such a prompt has the
// text before the place to fill, the text after it, and the model's own tokens around them.
// llama.cpp's /infill and the field "suffix" of other APIs use it.

#include <optional>
#include <vector>

#include "serve/protocol/served_model.h"

namespace neuronmm::serve {

// The tokens of a model that can fill in the middle.
struct InfillTokens {
  TokenId prefix = 0, suffix = 0;
  std::optional<TokenId> middle;  // nothing for models that write directly after the prefix
  // Whether the suffix comes before the prefix.
  bool suffix_first = false;
  std::optional<TokenId> repository = {}, file = {};  // begin the names of a repository and a file
  // Tokens that end the text in the middle, in addition to the model's own stop tokens.
  std::vector<TokenId> stops = {};
};

// Finds the tokens by their names in the vocabulary. Returns the error 400, which names `param`, if
// the model lacks them.
ApiResult<InfillTokens> find_infill_tokens(const ServedModel& model, const std::string& param);

// The parts of a prompt, as tokens.
struct InfillParts {
  std::vector<TokenId> prefix, suffix;
  std::vector<TokenId> begin;       // the begin of the middle, which the answer continues
  std::vector<TokenId> repository;  // other files, with the tokens between them
};

// How many tokens each part may have. The prefix and the repository lose their first tokens, and
// the suffix its last ones.
struct InfillLimits {
  int64_t prefix = 0, suffix = 0, repository = 0;
};

// Returns llama.cpp's limits: 2048 tokens around the place, of which the prefix has three quarters,
// and other files as far as `answer_tokens` more fit into the context.
InfillLimits llama_cpp_infill_limits(int64_t context_tokens, int64_t begin_tokens,
                                     int64_t answer_tokens);
// Returns limits that only keep room for the answer. A prefix or suffix that is shorter than its
// share leaves the rest to the other one.
InfillLimits whole_infill_limits(int64_t context_tokens, const InfillParts& parts,
                                 int64_t answer_tokens);

// Joins the parts. A token for the beginning of a text comes first if the tokenizer adds one.
std::vector<TokenId> infill_prompt(const ServedModel& model, const InfillTokens& tokens,
                                   InfillParts parts, const InfillLimits& limits);

// Returns the prompt for the middle between two texts, cut to the context. `prefix` has the tokens
// of the first one. `max_tokens` is the limit of the answer, if there is one. The caller adds
// InfillTokens::stops to the stop tokens. Errors name the field "suffix".
ApiResult<std::vector<TokenId>> infill_prompt(const ServedModel& model, const InfillTokens& tokens,
                                              std::vector<TokenId> prefix, std::string_view suffix,
                                              std::optional<int64_t> max_tokens);

}  // namespace neuronmm::serve
