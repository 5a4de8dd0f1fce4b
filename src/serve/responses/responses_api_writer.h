#pragma once
// Writes answers in the format of OpenAI's Responses API: a response whose output is a list of
// items (a message, thoughts, tool calls). The response is sent as one body or as a stream of typed
// events. prepared_generation.cc creates the writer.

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "serve/output/chat_output.h"
#include "serve/responses/response_writer.h"

namespace neuronmm::serve {

// The writer of one response.
class ResponsesApiWriter : public ResponseWriter {
 public:
  // `settings` has one prompt and one choice. `echoed` has the fields of the request that the
  // response repeats.
  ResponsesApiWriter(ResponseSettings settings, ChatOutputSettings chat, Json echoed,
                     std::shared_ptr<ResponseSink> sink);

 protected:
  bool add_token(size_t index, const GeneratedToken& token) override;
  void add_end(size_t index, const End& end) override;
  void send_rest() override;
  std::string last_event(const ApiError& error) override;
  bool keeps_tokens() const override { return true; }  // the last event repeats the whole response

 private:
  enum class Kind { kReasoning, kMessage, kCall };
  struct Item {
    Kind kind = Kind::kMessage;
    std::string id = {}, call_id = {}, name = {}, name_space = {};
    std::string text = {};  // the arguments if the item is a call
    bool custom = false;    // a call of a custom tool, whose arguments are a text
    Json logprobs = Json::array();
    const char* status = "in_progress";
  };
  static Json part_json(const Item& item);
  static Json item_json(const Item& item);
  void begin();
  void send_deltas(const std::vector<OutputDelta>& deltas);
  void open(Kind kind, const std::string& name = {});
  void split_namespace(Item& call) const;
  // Ends the last item with this status.
  void close(const char* status);
  void add_text(const std::string& text);
  void send(const char* type, const Json& fields);
  // Sends an event about the last item, with the item's index in the output. With `of_part`, the
  // event also has the index of the item's text part.
  void send_of_item(const char* type, const Json& fields, bool of_part);
  Json response(const char* status) const;
  Json usage() const;

  const ChatOutputSettings chat_;
  const Json echoed_;
  ChatOutput output_;
  std::vector<Item> items_;
  bool begun_ = false, incomplete_ = false;
  Json new_logprobs_ = Json::array();  // log probabilities that no event has sent
  int64_t reasoning_tokens_ = 0, events_ = 0;
  std::mt19937_64 random_;
};

}  // namespace neuronmm::serve
