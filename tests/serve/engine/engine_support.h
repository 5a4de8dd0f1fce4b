#pragma once
// The helpers that the tests of the engine share: a listener that keeps everything it receives,
// a backend that can be halted before a step, and the answers that generate() gives.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "model/backends.h"
#include "model/generate.h"
#include "model/tiny_model.h"
#include "ops/forwarding_backend.h"
#include "serve/engine/engine.h"

namespace neuronmm::serve {

struct ReceivedAnswer {
  std::vector<TokenId> tokens;
  std::vector<model::TokenLogprobs> logprobs;
  std::optional<FinishReason> reason;
  std::optional<TokenId> stop_token;
  std::string message;
};

// A listener that keeps the answers and checks the order of its calls.
class Recorder : public Listener {
 public:
  explicit Recorder(int64_t choices = 1) : answers_(static_cast<size_t>(choices)) {}

  // A function that is called for every token on the engine's thread. It returns what on_token()
  // returns.
  std::function<bool(int64_t choice, TokenId token)> on_each = nullptr;

  void wait();  // returns when all answers have ended, and fails the test after two minutes
  bool finished() const;
  // The functions below may be called after wait().
  const ReceivedAnswer& answer(size_t choice = 0) const { return answers_.at(choice); }
  const std::vector<ReceivedAnswer>& answers() const { return answers_; }
  std::optional<PromptUsage> usage() const { return usage_; }
  const std::vector<model::TokenLogprobs>& prompt_logprobs() const { return prompt_logprobs_; }

  void on_start(const PromptUsage& usage) override;
  void on_prompt_logprobs(std::vector<model::TokenLogprobs> logprobs) override;
  bool on_token(int64_t choice, const GeneratedToken& token) override;
  void on_finish(int64_t choice, FinishReason reason, std::optional<TokenId> stop_token,
                 const std::string& message) override;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ReceivedAnswer> answers_;
  size_t ended_ = 0;
  std::optional<PromptUsage> usage_;
  std::vector<model::TokenLogprobs> prompt_logprobs_;
};

// A backend that counts the steps of a model and can halt them.
class SteppedBackend : public ops::ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  Status prepare(int64_t tokens) const override;

  void hold();     // halts every step from the next one on
  void release();  // lets all steps run
  // Lets `count` steps run and returns when the step after them is halted.
  void step(int64_t count = 1);
  std::vector<int64_t> tokens_of_steps() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable bool held_ = false, halted_ = false;
  mutable int64_t allowed_ = 0;
  mutable std::vector<int64_t> steps_;
};

// Returns the answer that generate() gives to the request with the seed of answer `choice`.
model::Generation expected_answer(const model::Transformer& transformer, const Request& request,
                                  int64_t choice = 0);
// Compares the tokens, the log-probabilities (bit by bit) and the reason of the end.
void expect_answer(const ReceivedAnswer& answer, const model::Generation& expected);
// Submits a request, which must not be refused, and waits for its answers.
std::shared_ptr<Recorder> submit_and_wait(Engine& engine, const Request& request);
// Waits until the engine is idle and expects that no block is in use.
void expect_no_block_in_use(const Engine& engine);

model::Transformer make_model(const io::ModelConfig& config, const ops::Backend& backend,
                              uint64_t seed = 77);
// Returns the tiny model's configuration with a context of `context` tokens.
io::ModelConfig long_config(int64_t context,
                            io::Architecture architecture = io::Architecture::kLlama);
int64_t block_bytes(const model::Transformer& transformer);

}  // namespace neuronmm::serve
