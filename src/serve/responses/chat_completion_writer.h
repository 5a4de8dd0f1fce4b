#pragma once
// Writes answers to POST /v1/chat/completions: one chat.completion object, or a stream of
// chat.completion.chunk objects. prepared_generation.cc creates the writer.

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "serve/output/chat_output.h"
#include "serve/responses/choices_writer.h"

namespace neuronmm::serve {

// The writer of one response, which may have several choices.
class ChatCompletionWriter : public ChoicesWriter {
 public:
  // `settings` has one prompt.
  ChatCompletionWriter(ResponseSettings settings, ChatOutputSettings chat,
                       std::shared_ptr<ResponseSink> sink);

 protected:
  bool add_token(size_t index, const GeneratedToken& token) override;
  void add_end(size_t index, const End& end) override;
  std::vector<Json> whole_choices() override;
  const char* object_name() const override;
  void add_head_fields(Json& body) override;

 private:
  struct Call {
    std::string id, name, arguments;
  };
  struct Choice {
    explicit Choice(ChatOutput output_in) : output(std::move(output_in)) {}
    ChatOutput output;
    bool begun = false;
    bool in_custom_call = false;  // the last call is one of a custom tool
    // The parts of the answer that have not been sent. Without a stream that is the whole answer.
    std::string reasoning, content;
    std::vector<Call> calls;
    Json logprobs = Json::array();
    std::vector<TokenId> token_ids;
    std::string finish_reason;
    Json stop_reason;
  };
  void begin(size_t index);
  void send_deltas(size_t index, const std::vector<OutputDelta>& deltas);
  void collect(Choice& choice, const OutputDelta& delta);
  void send_delta(size_t index, Json delta);
  Json delta_json(Choice& choice, const OutputDelta& delta);
  Json call_json(const Call& call) const;
  Json take_logprobs(Choice& choice);

  const ChatOutputSettings chat_;
  std::vector<Choice> choices_;
  std::mt19937_64 random_;
};

}  // namespace neuronmm::serve
