#include "eval/encoded_request.h"

#include <algorithm>

#include "eval/python_text.h"

namespace neuronmm::eval {
namespace {

using text::TokenId;

// Encodes a continuation whose context is empty. The context becomes one BOS (or EOS), after which
// the first token is predicted, unless the continuation begins with that token.
Status encode_alone(const text::Tokenizer& tokenizer, const std::string& continuation,
                    std::vector<TokenId>& tokens, size_t& context_tokens) {
  const auto prefix = tokenizer.bos_id() ? tokenizer.bos_id() : tokenizer.eos_id();
  if (!prefix) return fail("an empty context needs a BOS or EOS token; the tokenizer has neither");
  NMM_ASSIGN(tokens, tokenizer.encode(continuation, {.add_special_tokens = false}));
  if (tokens.empty() || tokens.front() != *prefix) tokens.insert(tokens.begin(), *prefix);
  context_tokens = 1;
  return {};
}

}  // namespace

Result<EncodedRequest> encode_request(const text::Tokenizer& tokenizer, const Request& request,
                                      const EncodeRules& rules) {
  std::vector<TokenId> whole;
  size_t context_tokens = 0;
  if (request.context.empty()) {
    NMM_TRY(encode_alone(tokenizer, request.continuation, whole, context_tokens));
  } else {
    const text::EncodeOptions options = {.add_special_tokens = rules.add_bos};
    NMM_ASSIGN(const auto context, tokenizer.encode(rstrip(request.context), options));
    context_tokens = context.size();
    NMM_ASSIGN(whole, tokenizer.encode(request.context + request.continuation, options));
    // If a token spans the border, the context keeps its own encoding.
    std::copy_n(context.begin(), std::min(context_tokens, whole.size()), whole.begin());
  }
  if (context_tokens == 0) return fail("expected a context with tokens, found none");
  if (whole.size() <= context_tokens) return fail("expected a choice with tokens, found none");

  EncodedRequest encoded;
  encoded.targets.assign(whole.begin() + static_cast<int64_t>(context_tokens), whole.end());
  if (std::ssize(encoded.targets) > rules.max_length) {
    return fail("a choice has {} tokens, more than max_position_embeddings {}",
                encoded.targets.size(), rules.max_length);
  }
  // The last token is a target only; the model never reads it.
  const int64_t length = std::min(std::ssize(whole) - 1, rules.max_length);
  encoded.inputs.assign(whole.end() - 1 - length, whole.end() - 1);
  encoded.truncated = length < std::ssize(whole) - 1;
  return encoded;
}

int64_t EncodedItem::shared_tokens() const {
  const std::vector<TokenId>& first = requests.front().inputs;
  int64_t shared = std::ssize(first);
  for (const EncodedRequest& request : requests) {
    shared = std::min(shared, request.first_prediction() + 1);
    const auto differ = std::mismatch(first.begin(), first.begin() + shared, request.inputs.begin(),
                                      request.inputs.end());
    shared = differ.first - first.begin();
  }
  return shared;
}

Result<std::vector<EncodedItem>> encode_items(const text::Tokenizer& tokenizer,
                                              const std::vector<TaskItem>& items,
                                              const EncodeRules& rules, const std::string& file) {
  std::vector<EncodedItem> encoded;
  for (const TaskItem& item : items) {
    EncodedItem& next = encoded.emplace_back();
    for (const Request& request : item.requests) {
      auto result = encode_request(tokenizer, request, rules);
      if (!result) return fail("{}:{}: {}", file, item.line, result.error().message);
      next.requests.push_back(std::move(result).value());
    }
  }
  return encoded;
}

}  // namespace neuronmm::eval
