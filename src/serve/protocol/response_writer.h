#pragma once
// What all responses have in common: from what the engine tells of one or several prompts to one
// response, whole or as a stream of events.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/engine/request.h"
#include "serve/protocol/event_stream.h"
#include "serve/protocol/output_detokenizer.h"

namespace neuronmm::serve {

struct ResponseSettings {
  const text::Tokenizer* tokenizer = nullptr;  // must outlive the response
  std::string id, model, fingerprint;          // an empty fingerprint is null
  int64_t created = 0;                         // Unix time in seconds
  std::vector<std::vector<TokenId>> prompts;   // at least one
  int64_t choices = 1;                         // of each prompt
  OutputDetokenizerOptions text;
  std::vector<TokenId> stop_token_ids;  // that the request adds to the model's
  bool stream = false, include_usage = false, continuous_usage = false;
  bool logprobs = false, return_token_ids = false;
  // That the tokens may take which a response keeps until it is whole.
  int64_t most_kept_bytes = int64_t{256} << 20;
};

class ResponseWriter {
 public:
  ResponseWriter(ResponseSettings settings, std::shared_ptr<ResponseSink> sink);
  virtual ~ResponseWriter() = default;

  // For the engine, one for each prompt. They keep `writer` alive.
  static std::vector<std::shared_ptr<Listener>> listeners(
      const std::shared_ptr<ResponseWriter>& writer);
  // Nothing more is told to the sink, not its end either: for a request that was refused, and a
  // client that has gone away. Answers that still run end with their next token.
  void close();

 protected:
  struct End {
    std::string reason;  // "stop" or "length"
    std::optional<TokenId> stop_token;
  };
  // Of answer `index`: prompt * choices + choice. False ends it.
  virtual bool add_token(size_t index, const GeneratedToken& token) = 0;
  virtual void add_end(size_t index, const End& end) = 0;
  virtual void add_prompt_logprobs(size_t, std::vector<model::TokenLogprobs>&&) {}
  // All answers have ended: what is left of a stream, or the whole response.
  virtual void send_rest() = 0;
  // The body where a response that is no stream breaks off.
  virtual std::string error_body(const ApiError& error) { return openai_error_json(error); }
  // The last event of a stream that breaks off.
  virtual std::string last_event(const ApiError& error) { return error_event(error); }
  // Whether tokens are kept until all answers have ended.
  virtual bool keeps_tokens() const { return !settings_.stream; }

  const ResponseSettings& settings() const { return settings_; }
  const text::Tokenizer& tokenizer() const { return *settings_.tokenizer; }
  const std::vector<TokenId>& prompt_of(size_t index) const {
    return settings_.prompts[index / static_cast<size_t>(settings_.choices)];
  }
  size_t answers() const {
    return settings_.prompts.size() * static_cast<size_t>(settings_.choices);
  }
  ResponseSink& sink() { return *sink_; }
  struct TokenCounts {
    int64_t prompt = 0, cached = 0, completion = 0;  // of the prompts, of these in memory, made
  };
  const TokenCounts& counts() const { return counts_; }
  // The text or the token of the request's own that ended an answer; null where the model ended it
  // (vLLM's stop_reason).
  Json stop_reason(const OutputDetokenizer& text, const End& end) const;

 private:
  class PromptListener;
  bool on_token(size_t prompt, int64_t choice, const GeneratedToken& token);
  void on_finish(size_t prompt, int64_t choice, FinishReason reason,
                 std::optional<TokenId> stop_token, const std::string& message);
  // False: the response would become too large, which its client has been told.
  bool keep(const GeneratedToken& token);
  void fail(const ApiError& error);

  const ResponseSettings settings_;
  const std::shared_ptr<ResponseSink> sink_;
  std::mutex mutex_;
  size_t unfinished_;
  TokenCounts counts_;
  int64_t kept_bytes_ = 0;
  bool closed_ = false;
};

}  // namespace neuronmm::serve
