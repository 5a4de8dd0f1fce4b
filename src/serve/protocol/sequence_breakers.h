#pragma once
// Turns the texts of the field dry_sequence_breakers into tokens, as llama.cpp does.
// engine_request() uses this file.

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "model/dry.h"
#include "text/tokenizer/tokenizer.h"

namespace neuronmm::serve {

// Returns the tokens in which one of the texts may begin, with the tokens that then follow. Of each
// text the first 40 bytes count. Of the tokens that follow, 20 count. The time is proportional to
// the size of the vocabulary for each text.
model::SequenceBreakers sequence_breakers(const text::Tokenizer& tokenizer,
                                          std::span<const std::string> texts);

// Keeps the result for the texts that were asked for last. A request with many prompts, and clients
// that all ask for the same texts, thus need it only once. All functions may be called from any
// thread.
class SequenceBreakerCache {
 public:
  std::shared_ptr<const model::SequenceBreakers> get(const text::Tokenizer& tokenizer,
                                                     const std::vector<std::string>& texts);

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;
  std::shared_ptr<const model::SequenceBreakers> breakers_;
};

}  // namespace neuronmm::serve
