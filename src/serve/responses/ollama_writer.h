#pragma once
// Writes answers in the format of Ollama's protocol (docs/reference/ollama_protocol.md): one JSON
// object, or a stream with one object per line. protocol/ollama_generation.cc creates the writer.

#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "serve/output/chat_output.h"
#include "serve/responses/response_writer.h"

namespace neuronmm::serve {

// The two forms of an answer: {"message": {"content"}} of /api/chat and {"response"} of
// /api/generate.
enum class OllamaForm { kChat, kGenerate };

// Returns the beginning of an answer: {"model", "created_at", and an empty message or response}.
Json ollama_answer_head(OllamaForm form, const std::string& model);
// Returns a time as the protocol writes it, for example "2026-11-29T11:40:34.123456Z".
std::string ollama_time(std::chrono::system_clock::time_point time);

// The writer of one answer.
class OllamaWriter : public ResponseWriter {
 public:
  // `settings` has one prompt and one choice. With `returns_context` the last object has the tokens
  // of prompt and answer.
  OllamaWriter(ResponseSettings settings, ChatOutputSettings chat, OllamaForm form,
               bool returns_context, std::shared_ptr<ResponseSink> sink);

 protected:
  void on_first_start() override { started_ = Clock::now(); }
  bool add_token(size_t index, const GeneratedToken& token) override;
  void add_end(size_t index, const End& end) override;
  void send_rest() override;
  std::string error_body(const ApiError& error) override { return ollama_error_json(error); }
  std::string last_event(const ApiError& error) override { return ollama_error_json(error) + "\n"; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Call {
    std::string id, name, arguments;
  };
  // The part of the answer that has not been sent yet. Without a stream it is the whole answer.
  struct Piece {
    std::string thinking, content;
    std::vector<Call> calls;
    Json logprobs = Json::array();
    bool empty() const { return thinking.empty() && content.empty() && calls.empty(); }
  };
  void add(const std::vector<OutputDelta>& deltas);
  void end_call();
  void send_piece();
  Json take_piece();
  void add_metrics(Json& json) const;

  const ChatOutputSettings chat_;
  const OllamaForm form_;
  const bool returns_context_;
  ChatOutput output_;
  Piece piece_;
  std::optional<Call> call_;  // the call whose arguments are not complete
  int64_t calls_sent_ = 0;
  std::vector<TokenId> context_;
  std::string done_reason_;
  std::mt19937_64 random_;
  const Clock::time_point arrived_ = Clock::now();
  Clock::time_point started_ = arrived_;
  std::optional<Clock::time_point> first_token_;
};

}  // namespace neuronmm::serve
