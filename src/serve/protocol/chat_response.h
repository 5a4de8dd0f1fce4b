#pragma once
// Answers as chat.completion objects: whole, or in chunks.

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "serve/protocol/answer_parser.h"
#include "serve/protocol/response_writer.h"

namespace neuronmm::serve {

struct ChatSettings {
  Thinking thinking = Thinking::kNone;
  ToolSyntax tools = ToolSyntax::kNone;  // kNone: nothing is a call
  ToolList tool_list = std::make_shared<const std::vector<Tool>>();
  bool parallel_calls = true;
  bool forced_calls = false;       // the answer is calls and nothing else
  std::string named_call = {};     // that the client chose: the answer ends with "stop"
  bool continues_message = false;  // the answer goes on with the prompt's last message,
  std::string echo = {};           // which is told before it
  uint64_t id_seed = 0;            // of the ids of calls
};

class ChatResponse : public ResponseWriter {
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
    Choice(AnswerText text_in, AnswerParser parser_in)
        : text(std::move(text_in)), parser(std::move(parser_in)) {}
    AnswerText text;
    AnswerParser parser;
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
  std::string call_id();

  const ChatSettings chat_;
  std::vector<Choice> choices_;
  std::mt19937_64 random_;
};

}  // namespace neuronmm::serve
