#pragma once
// Turns the tokens of one answer into thoughts, content and tool calls. The writers of all chat
// APIs use it: they push every token and send the deltas that come back.

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/output/custom_tool_input.h"
#include "serve/output/output_detokenizer.h"
#include "serve/output/output_parser.h"

namespace neuronmm::serve {

// Settings that say how to read an answer.
struct ChatOutputSettings {
  Thinking thinking = Thinking::kNone;
  ReasoningTags reasoning_tags = {};     // the marks of the thoughts
  ToolSyntax tools = ToolSyntax::kNone;  // kNone: the answer has no calls
  ToolList tool_list = std::make_shared<const std::vector<Tool>>();
  bool parallel_calls = true;
  bool forced_calls = false;       // the answer has only calls, no content
  std::string named_call = {};     // the function that the client demands
  bool continues_message = false;  // the answer continues the prompt's last message
  // The text of the continued message, which is sent before the answer if the client wants it.
  std::string echo = {};
  uint64_t id_seed = 0;  // seed of the random ids of calls
};

// The state of one answer.
class ChatOutput {
 public:
  // `tokenizer` must outlive this object.
  ChatOutput(const text::Tokenizer& tokenizer, OutputDetokenizerOptions options,
             const ChatOutputSettings& chat, std::span<const TokenId> prompt);
  // Adds a token and returns what is certain about the answer's text after it.
  std::vector<OutputDelta> push(TokenId id);
  // Returns the rest of the answer, after its last token. If the client demands a certain function,
  // its call is returned even if the answer ended before the function's name.
  std::vector<OutputDelta> finish(std::optional<TokenId> stop_token);
  // Returns whether the answer is over, although the model has not ended it: a stop string was
  // found, or a second call began where only one is allowed.
  bool ended() const { return text_.stopped() || parser_.ended(); }
  bool has_calls() const { return parser_.has_calls(); }
  // Returns whether a stop string has cut off the last call, so that its arguments are not complete
  // JSON.
  bool cut_call() const;
  const OutputDetokenizer& text() const { return text_; }

 private:
  std::vector<OutputDelta> filtered(std::vector<OutputDelta> deltas);

  OutputDetokenizer text_;
  OutputParser parser_;
  CustomToolInput custom_;
  bool forced_calls_;
  std::string named_call_;
  std::string arguments_;  // arguments of the last call
};

// Returns a random id for a call. Mistral's templates demand nine letters and digits. For all other
// syntaxes the id begins with `prefix`.
std::string random_call_id(ToolSyntax syntax, std::mt19937_64& random,
                           std::string_view prefix = "call_");

}  // namespace neuronmm::serve
