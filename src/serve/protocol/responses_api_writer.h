#pragma once
// Answers as OpenAI's Responses API has them: a response whose output are items (a message,
// thoughts, calls), whole or as a stream of events that each have a type.

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "serve/protocol/chat_output.h"
#include "serve/protocol/response_writer.h"

namespace neuronmm::serve {

class ResponsesApiWriter : public ResponseWriter {
 public:
  // `settings` has one prompt and one choice. `echoed`: what the response tells of its request.
  ResponsesApiWriter(ResponseSettings settings, ChatOutputSettings chat, Json echoed,
                     std::shared_ptr<ResponseSink> sink);

 protected:
  bool add_token(size_t index, const GeneratedToken& token) override;
  void add_end(size_t index, const End& end) override;
  void send_rest() override;
  std::string last_event(const ApiError& error) override;
  bool keeps_tokens() const override { return true; }  // the last event has the whole response

 private:
  enum class Kind { kReasoning, kMessage, kCall };
  struct Item {
    Kind kind = Kind::kMessage;
    std::string id = {}, call_id = {}, name = {}, space = {};
    std::string text = {};  // of a call its arguments
    Json logprobs = Json::array();
    const char* status = "in_progress";
  };
  static Json part_json(const Item& item);
  static Json item_json(const Item& item);
  void begin();
  void tell(const std::vector<OutputDelta>& deltas);
  void open(Kind kind, const std::string& name = {});
  void leave_space(Item& call) const;
  // The last item has ended.
  void close(const char* status);
  void add_text(const std::string& text);
  void send(const char* type, const Json& fields);
  // Of the last item, where it is in the output, and of its text the part.
  void send_of_item(const char* type, const Json& fields, bool of_part);
  Json response(const char* status) const;
  Json usage() const;

  const ChatOutputSettings chat_;
  const Json echoed_;
  ChatOutput output_;
  std::vector<Item> items_;
  bool begun_ = false, incomplete_ = false;
  Json new_logprobs_ = Json::array();  // of tokens that no event has told
  int64_t reasoning_tokens_ = 0, events_ = 0;
  std::mt19937_64 random_;
};

}  // namespace neuronmm::serve
