#pragma once
// Text as tokens arrive.

#include <string>

#include "text/token_id.h"

namespace neuronmm::text {

class Tokenizer;

// Never half a UTF-8 character; bytes that can no longer become one are
// emitted as U+FFFD.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens = true);
  std::string push(TokenId id);
  std::string finish();  // what is still held back

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::string held_;
};

}  // namespace neuronmm::text
