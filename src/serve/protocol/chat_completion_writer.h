#pragma once
// Answers as chat.completion objects: whole, or in chunks.

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "serve/protocol/chat_output.h"
#include "serve/protocol/choices_writer.h"

namespace neuronmm::serve {

class ChatResponse : public ChoicesResponse {
 public:
  // `settings` has one prompt.
  ChatResponse(ResponseSettings settings, ChatSettings chat, std::shared_ptr<AnswerSink> sink);

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
    explicit Choice(ChatAnswer answer_in) : answer(std::move(answer_in)) {}
    ChatAnswer answer;
    bool begun = false;
    // Not told yet; of a whole response, all.
    std::string reasoning, content;
    std::vector<Call> calls;
    Json logprobs = Json::array();
    std::vector<TokenId> token_ids;
    std::string finish_reason;
    Json stop_reason;
  };
  void begin(size_t index);
  void tell(size_t index, const std::vector<AnswerDelta>& deltas);
  void collect(Choice& choice, const AnswerDelta& delta);
  void send_delta(size_t index, Json delta);
  Json delta_json(const AnswerDelta& delta);
  Json take_logprobs(Choice& choice);

  const ChatSettings chat_;
  std::vector<Choice> choices_;
  std::mt19937_64 random_;
};

}  // namespace neuronmm::serve
