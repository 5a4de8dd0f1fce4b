#pragma once
// One answer to a chat, token by token: thoughts, content and calls of tools.

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/protocol/output_detokenizer.h"
#include "serve/protocol/output_parser.h"

namespace neuronmm::serve {

struct ChatOutputSettings {
  Thinking thinking = Thinking::kNone;
  ToolSyntax tools = ToolSyntax::kNone;  // kNone: nothing is a call
  ToolList tool_list = std::make_shared<const std::vector<Tool>>();
  bool parallel_calls = true;
  bool forced_calls = false;       // the answer is calls and nothing else
  std::string named_call = {};     // that the client chose
  bool continues_message = false;  // the answer goes on with the prompt's last message,
  std::string echo = {};           // which is told before it
  uint64_t id_seed = 0;            // of the ids of calls
};

class ChatOutput {
 public:
  // `tokenizer` must outlive this.
  ChatOutput(const text::Tokenizer& tokenizer, OutputDetokenizerOptions options,
             const ChatOutputSettings& chat, std::span<const TokenId> prompt);
  std::vector<OutputDelta> push(TokenId id);
  // No more tokens come. A call that the client chose is told even if the answer ended before its
  // name.
  std::vector<OutputDelta> finish(std::optional<TokenId> stop_token);
  // By itself: a stop string, or a second call where one is wanted.
  bool ended() const { return text_.stopped() || parser_.ended(); }
  bool has_calls() const { return parser_.has_calls(); }
  // A stop string has cut the last call off.
  bool cut_call() const;
  const OutputDetokenizer& text() const { return text_; }

 private:
  std::vector<OutputDelta> wanted(std::vector<OutputDelta> deltas);

  OutputDetokenizer text_;
  OutputParser parser_;
  bool forced_calls_;
  std::string named_call_;
  std::string arguments_;  // of the last call
};

// For a call in this syntax: Mistral's templates want nine letters and digits, others take
// anything, so that it begins with `prefix`.
std::string random_call_id(ToolSyntax syntax, std::mt19937_64& random,
                           std::string_view prefix = "call_");

}  // namespace neuronmm::serve
