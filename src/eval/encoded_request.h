#pragma once
// A request as tokens, by lm-evaluation-harness's rules (lm_eval/api/model.py, huggingface.py):
//   1. white space at the end of the context moves to the front of the continuation;
//   2. context and continuation are encoded together, and what is longer than the encoded context
//      is the continuation (an empty context is one BOS, or EOS where there is no BOS);
//   3. the model reads the last max_position_embeddings + 1 tokens of both, but for the very last
//      one: a request that is too long loses the begin of its context.

#include <vector>

#include "base/result.h"
#include "eval/task_item.h"
#include "text/tokenizer.h"

namespace neuronmm::eval {

struct EncodedRequest {
  std::vector<text::TokenId> inputs;   // what the model reads
  std::vector<text::TokenId> targets;  // the continuation; its last token is not in inputs
  bool truncated = false;

  // targets[j] is predicted after inputs[first_prediction() + j].
  int64_t first_prediction() const { return std::ssize(inputs) - std::ssize(targets); }
};

struct EncodeRules {
  bool add_bos = true;     // what the tokenizer adds by default; false: nothing
  int64_t max_length = 0;  // max_position_embeddings
};

// Errors complete "FILE:LINE: ": a context or continuation without tokens, a continuation longer
// than max_length, all of which stop the harness, too.
Result<EncodedRequest> encode_request(const text::Tokenizer& tokenizer, const Request& request,
                                      const EncodeRules& rules);

struct EncodedItem {
  std::vector<EncodedRequest> requests;
  // Tokens at the begin that all requests read and whose predictions, but for the last one's, none
  // of them scores: computed once.
  int64_t shared_tokens() const;
};

// Errors name the file and line.
Result<std::vector<EncodedItem>> encode_items(const text::Tokenizer& tokenizer,
                                              const std::vector<TaskItem>& items,
                                              const EncodeRules& rules, const std::string& file);

}  // namespace neuronmm::eval
