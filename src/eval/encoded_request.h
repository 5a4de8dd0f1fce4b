#pragma once
// Turns a request into tokens by lm-evaluation-harness's rules (lm_eval/api/model.py,
// huggingface.py):
//   1. White space at the end of the context moves to the front of the continuation.
//   2. Context and continuation are encoded together. Tokens beyond the length of the encoded
//      context are the continuation. An empty context is one BOS, or EOS if there is no BOS.
//   3. The model reads the last max_position_embeddings + 1 tokens of both, without the very last
//      one. A request that is too long therefore loses the start of its context.

#include <vector>

#include "base/result.h"
#include "eval/task_item.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::eval {

// A request as tokens.
struct EncodedRequest {
  std::vector<text::TokenId> inputs;   // the tokens that the model reads
  std::vector<text::TokenId> targets;  // the continuation; its last token is not in inputs
  bool truncated = false;

  // The prediction of targets[j] follows inputs[first_prediction() + j].
  int64_t first_prediction() const { return std::ssize(inputs) - std::ssize(targets); }
};

// How requests are encoded.
struct EncodeRules {
  bool add_bos = true;     // add the special tokens that the tokenizer adds by default
  int64_t max_length = 0;  // the model's max_position_embeddings
};

// Encodes one request. Errors are a context or continuation without tokens, and a continuation
// longer than max_length; the harness stops at them, too. The message continues "FILE:LINE: ".
Result<EncodedRequest> encode_request(const text::Tokenizer& tokenizer, const Request& request,
                                      const EncodeRules& rules);

// The requests of one item, one per choice.
struct EncodedItem {
  std::vector<EncodedRequest> requests;
  // Returns the number of leading tokens that all requests read and that can be computed once. No
  // request scores their predictions, except the prediction after the last of them.
  int64_t shared_tokens() const;
};

// Encodes all items. Errors name the file and line.
Result<std::vector<EncodedItem>> encode_items(const text::Tokenizer& tokenizer,
                                              const std::vector<TaskItem>& items,
                                              const EncodeRules& rules, const std::string& file);

}  // namespace neuronmm::eval
