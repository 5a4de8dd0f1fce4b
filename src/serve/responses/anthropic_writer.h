#pragma once
// Writes answers in the format of Anthropic's Messages API: a message whose content is a list of
// blocks (thoughts, text, tool calls). The message is sent as one body or as a stream of typed
// events. prepared_generation.cc creates the writer.

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "serve/output/chat_output.h"
#include "serve/responses/response_writer.h"

namespace neuronmm::serve {

// The writer of one message.
class AnthropicWriter : public ResponseWriter {
 public:
  // `settings` has one prompt and one choice.
  AnthropicWriter(ResponseSettings settings, ChatOutputSettings chat,
                  std::shared_ptr<ResponseSink> sink);

 protected:
  bool add_token(size_t index, const GeneratedToken& token) override;
  void add_end(size_t index, const End& end) override;
  void send_rest() override;
  std::string error_body(const ApiError& error) override { return anthropic_error_json(error); }
  std::string last_event(const ApiError& error) override;

 private:
  enum class Kind { kThinking, kText, kToolUse };
  struct Block {
    Kind kind = Kind::kText;
    std::string id = {}, name = {};  // of a tool call
    // The text so far. For a tool call these are its arguments. A stream keeps no text.
    std::string text = {};
  };
  Json block_json(const Block& block) const;
  Json message() const;
  Json usage() const;
  void begin();
  void send_deltas(const std::vector<OutputDelta>& deltas);
  void open(Kind kind, const std::string& name = {});
  void close();  // ends the last block
  void add_text(const std::string& text);
  void send_of_block(const char* type, const Json& fields);

  const ChatOutputSettings chat_;
  ChatOutput output_;
  std::vector<Block> blocks_;
  bool begun_ = false;
  Json stop_reason_, stop_sequence_;  // null until the answer ends
  std::mt19937_64 random_;
};

}  // namespace neuronmm::serve
