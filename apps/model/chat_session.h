#pragma once
// A conversation with a model: what was said, and the keys and values of it, so that a turn costs
// only its own tokens.

#include <string>

#include "base/result.h"
#include "commands.h"
#include "model/prompt_cache.h"
#include "model/streamed_answer.h"
#include "text/conversation.h"

namespace neuronmm::apps {

struct ChatModel {
  const text::Tokenizer& tokenizer;
  const model::Transformer& transformer;
  model::GenerateOptions options;
  std::vector<std::string> stop;
  const DeviceOptions& device;
  bool timings = false;  // a line of them after each answer
};

class ChatSession {
 public:
  ChatSession(ChatModel model, text::Conversation conversation)
      : model_(std::move(model)),
        conversation_(std::move(conversation)),
        cache_(model_.transformer) {}

  // Says it as the user and writes the answer as it is made. After an error (a template that
  // refuses it, a context that is full) the conversation is as it was before. An interrupt ends the
  // answer; what was made of it stays part of the conversation.
  Status say(const std::string& message);
  // Another answer to the last message; errors: nobody has said anything.
  Status regenerate();
  // Whether the last word is the user's, as after an interrupt that came before the first token.
  bool unanswered() const;

  // A new system message; empty: none.
  void set_system(const std::string& text);
  // All is forgotten but the system message.
  void clear();
  void replace(text::Conversation conversation) { conversation_ = std::move(conversation); }
  const text::Conversation& conversation() const { return conversation_; }

 private:
  Status answer();

  ChatModel model_;
  text::Conversation conversation_;
  model::PromptCache cache_;
  uint64_t answers_ = 0;
};

}  // namespace neuronmm::apps
