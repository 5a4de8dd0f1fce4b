#pragma once
// The base of all response writers. A writer receives the tokens of one or several prompts from the
// engine and turns them into one response, as a body or as a stream of events. Its subclasses know
// the formats of the APIs.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "serve/engine/request.h"
#include "serve/output/output_detokenizer.h"
#include "serve/responses/event_stream.h"

namespace neuronmm::serve {

// Settings that are common to the responses of all APIs.
struct ResponseSettings {
  const text::Tokenizer* tokenizer = nullptr;  // must outlive the response
  std::string id, model, fingerprint;          // an empty fingerprint becomes null
  int64_t created = 0;                         // Unix time in seconds
  std::vector<std::vector<TokenId>> prompts;   // at least one
  int64_t choices = 1;                         // per prompt
  OutputDetokenizerOptions text;
  std::vector<TokenId> stop_token_ids;  // those of the request, without the model's own
  bool stream = false, include_usage = false, continuous_usage = false;
  bool logprobs = false, return_token_ids = false;
  // Limit for the memory of the tokens that a response without a stream keeps, in bytes. A longer
  // answer ends with an error. Assumed.
  int64_t most_kept_bytes = int64_t{256} << 20;
};

// The writer of one response. The engine's thread calls its listeners; close() may be called from
// any thread.
class ResponseWriter {
 public:
  ResponseWriter(ResponseSettings settings, std::shared_ptr<ResponseSink> sink);
  virtual ~ResponseWriter() = default;

  // Returns the listeners to submit to the engine, one per prompt. They keep `writer` alive.
  static std::vector<std::shared_ptr<Listener>> listeners(
      const std::shared_ptr<ResponseWriter>& writer);
  // Stops the response: the sink is not called again, not even for the end. Used for a request that
  // was refused and for a client that has left. The caller cancels the answers that still run.
  void close();
  // Ends the response with an error, unless it has ended.
  void end_with(const ApiError& error);

 protected:
  // The end of one answer.
  struct End {
    std::string reason;  // "stop" or "length"
    std::optional<TokenId> stop_token;
  };
  // Adds a token to answer `index` = prompt * choices + choice. Returns false to end that answer.
  virtual bool add_token(size_t index, const GeneratedToken& token) = 0;
  virtual void add_end(size_t index, const End& end) = 0;
  virtual void add_prompt_logprobs(size_t, std::vector<model::TokenLogprobs>&&) {}
  virtual void add_embedding(size_t /*prompt*/, std::vector<float>&&) {}
  // Called when the first prompt has left the queue and is about to be computed.
  virtual void on_first_start() {}
  // Called when the computation of a prompt begins.
  virtual void add_start(size_t, const PromptUsage&) {}
  // Sends the rest of a stream, or the whole response, after all answers have ended.
  virtual void send_rest() = 0;
  // Returns the body of a response without a stream that ends with an error.
  virtual std::string error_body(const ApiError& error) { return openai_error_json(error); }
  // Returns the last event of a stream that ends with an error.
  virtual std::string last_event(const ApiError& error) { return error_event(error); }
  // Returns whether the tokens are kept in memory until all answers have ended.
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
    // Tokens of the prompts, those of them that were in the prefix cache, and generated tokens.
    int64_t prompt = 0, cached = 0, completion = 0;
  };
  const TokenCounts& counts() const { return counts_; }
  // Returns the request's own stop string or stop token that ended an answer; null if the model
  // ended it by itself (vLLM's stop_reason).
  Json stop_reason(const OutputDetokenizer& text, const End& end) const;

 private:
  class PromptListener;
  bool on_token(size_t prompt, int64_t choice, const GeneratedToken& token);
  void on_finish(size_t prompt, int64_t choice, FinishReason reason,
                 std::optional<TokenId> stop_token, const std::string& message);
  void end_answer(size_t prompt, int64_t choice, FinishReason reason,
                  std::optional<TokenId> stop_token, const std::string& message);
  // Counts the memory of a token. Returns false if the response becomes too large, after sending
  // the error.
  bool keep(const GeneratedToken& token);
  void fail(const ApiError& error);

  const ResponseSettings settings_;
  const std::shared_ptr<ResponseSink> sink_;
  std::mutex mutex_;
  size_t unfinished_;
  TokenCounts counts_;
  int64_t kept_bytes_ = 0;
  bool closed_ = false, is_unwanted_ = false, started_ = false;
};

}  // namespace neuronmm::serve
