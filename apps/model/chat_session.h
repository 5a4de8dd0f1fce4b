#pragma once
// A conversation with a model, as `neuronmm chat` holds it. A session keeps the messages and their
// keys and values, so that a turn only computes its own tokens.

#include <string>

#include "base/result.h"
#include "commands.h"
#include "model/prompt_cache.h"
#include "model/streamed_answer.h"
#include "text/conversation.h"

namespace neuronmm::apps {

// The model of a chat and how it answers. The objects that it refers to must outlive the session.
struct ChatModel {
  const text::Tokenizer& tokenizer;
  const model::Transformer& transformer;
  model::GenerateOptions options;
  std::vector<std::string> stop;              // an answer ends before the first of these texts
  const DeviceOptions& device;                // the device that the timings name
  bool timings = false;                       // whether a line with timings follows each answer
  model::Speculation* speculation = nullptr;  // the draft, or null
  std::string draft = {};                     // its name in messages
};

// The messages of one conversation and the cache that belongs to them. The messages may be changed
// freely: an answer reuses as much of the cache as the new prompt still shares with the old one.
class ChatSession {
 public:
  ChatSession(ChatModel model, text::Conversation conversation)
      : model_(std::move(model)),
        conversation_(std::move(conversation)),
        cache_(model_.transformer) {}

  // Adds a message of the user, and writes the answer to standard output while it is made. If the
  // last message has no answer, the new message replaces it. After an error the conversation is as
  // before the call; errors are a template that refuses the message and a context that is full. An
  // interrupt (base/interrupt.h) ends the answer and is no error: the part that was written stays
  // in the conversation, and without such a part the message stays unanswered. Throws
  // std::system_error if standard output cannot be written.
  Status send(const std::string& message);
  // Drops the messages after the user's last one and answers that message again, with another seed.
  // Fails if there is no message of the user, and where send() fails; the conversation is then as
  // before.
  Status regenerate();
  // Returns whether the last message is the user's. This is so in a conversation that was loaded,
  // or after an interrupt that came before the first token.
  bool unanswered() const;

  // Replaces the system message. An empty text removes it.
  void set_system(const std::string& text);
  // Forgets all messages except the system message.
  void clear();
  // Goes on with another conversation, which was loaded from a file.
  void replace(text::Conversation conversation) { conversation_ = std::move(conversation); }
  const text::Conversation& conversation() const { return conversation_; }

 private:
  Status answer();
  void report_draft_failure();

  ChatModel model_;
  text::Conversation conversation_;
  model::PromptCache cache_;
  bool draft_failed_ = false;
  uint64_t answer_count_ = 0;  // is added to the seed, so that each answer has another one
};

}  // namespace neuronmm::apps
