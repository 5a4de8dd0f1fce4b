#include "serve/engine/engine_support.h"

#include <chrono>
#include <limits>
#include <thread>

namespace neuronmm::serve {

namespace {

// A test that waits longer than this has failed, also on a busy machine.
constexpr std::chrono::seconds kPatience(120);

}  // namespace

void Recorder::wait() {
  std::unique_lock lock(mutex_);
  const bool ended =
      changed_.wait_for(lock, kPatience, [this] { return ended_ == answers_.size(); });
  ASSERT_TRUE(ended) << "an answer never ended";
}

bool Recorder::finished() const {
  const std::lock_guard lock(mutex_);
  return ended_ == answers_.size();
}

void Recorder::on_start(const PromptUsage& usage) {
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(usage_) << "started twice";
  usage_ = usage;
}

void Recorder::on_prompt_logprobs(std::vector<model::TokenLogprobs> logprobs) {
  const std::lock_guard lock(mutex_);
  EXPECT_TRUE(usage_ && prompt_logprobs_.empty());
  for (const ReceivedAnswer& answer : answers_) EXPECT_TRUE(answer.tokens.empty());
  prompt_logprobs_ = std::move(logprobs);
}

bool Recorder::on_token(int64_t choice, const GeneratedToken& token) {
  {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(usage_) << "a token before the start";
    ReceivedAnswer& answer = answers_.at(static_cast<size_t>(choice));
    EXPECT_FALSE(answer.reason) << "a token after the end";
    answer.tokens.push_back(token.id);
    if (token.logprobs) answer.logprobs.push_back(*token.logprobs);
  }
  return !on_each || on_each(choice, token.id);
}

void Recorder::on_finish(int64_t choice, FinishReason reason, std::optional<TokenId> stop_token,
                         const std::string& message) {
  const std::lock_guard lock(mutex_);
  ReceivedAnswer& answer = answers_.at(static_cast<size_t>(choice));
  EXPECT_FALSE(answer.reason) << "ended twice";
  answer.reason = reason;
  answer.stop_token = stop_token;
  answer.message = message;
  ++ended_;
  changed_.notify_all();
}

Status SteppedBackend::prepare(int64_t tokens) const {
  std::unique_lock lock(mutex_);
  halted_ = true;
  changed_.notify_all();
  if (!changed_.wait_for(lock, kPatience, [this] { return !held_ || allowed_ > 0; }))
    ADD_FAILURE() << "a halted step was never released";
  halted_ = false;
  if (held_ && allowed_ > 0) --allowed_;
  steps_.push_back(tokens);
  return inner().prepare(tokens);
}

void SteppedBackend::hold() {
  const std::lock_guard lock(mutex_);
  held_ = true;
}

void SteppedBackend::release() {
  const std::lock_guard lock(mutex_);
  held_ = false;
  changed_.notify_all();
}

void SteppedBackend::step(int64_t count) {
  std::unique_lock lock(mutex_);
  allowed_ += count;
  changed_.notify_all();
  ASSERT_TRUE(changed_.wait_for(lock, kPatience, [this] { return allowed_ == 0 && halted_; }))
      << "the engine does not begin the step after " << count << " steps";
}

std::vector<int64_t> SteppedBackend::tokens_of_steps() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

model::Generation expected_answer(const model::Transformer& transformer, const Request& request,
                                  int64_t choice) {
  model::GenerateOptions options;
  options.max_new_tokens = request.max_new_tokens.value_or(std::numeric_limits<int64_t>::max());
  options.sampling = request.sampling;
  options.sampling.seed += static_cast<uint64_t>(choice);
  options.stop_tokens = request.stop_tokens;
  options.logprobs = request.logprobs;
  options.min_new_tokens = request.min_new_tokens;
  auto generation = model::generate(transformer, request.prompt, options);
  NMM_CHECK(generation.ok());
  return std::move(generation).value();
}

void expect_answer(const ReceivedAnswer& answer, const model::Generation& expected) {
  EXPECT_EQ(answer.tokens, expected.tokens);
  const bool stopped = expected.stop == model::Stop::kStopToken;
  EXPECT_EQ(answer.reason, stopped ? FinishReason::kStop : FinishReason::kLength) << answer.message;
  EXPECT_EQ(answer.stop_token.has_value(), stopped);
  ASSERT_EQ(answer.logprobs.size(), expected.logprobs.size());
  for (size_t i = 0; i < answer.logprobs.size(); ++i) {
    const auto &found = answer.logprobs[i], &right = expected.logprobs[i];
    ASSERT_EQ(found.chosen.id, right.chosen.id);
    ASSERT_EQ(found.chosen.logprob, right.chosen.logprob) << "token " << i;
    ASSERT_EQ(found.top.size(), right.top.size());
    for (size_t k = 0; k < found.top.size(); ++k) {
      ASSERT_EQ(found.top[k].id, right.top[k].id);
      ASSERT_EQ(found.top[k].logprob, right.top[k].logprob);
    }
  }
}

std::shared_ptr<Recorder> submit_and_wait(Engine& engine, const Request& request) {
  const auto recorder = std::make_shared<Recorder>(request.choices);
  const Admission admission = engine.submit(request, recorder);
  EXPECT_FALSE(admission.refusal) << admission.message;
  if (!admission.refusal) recorder->wait();
  return recorder;
}

void expect_no_block_in_use(const Engine& engine) {
  for (int i = 0; i < 10'000 && !engine.idle(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_TRUE(engine.idle());
  const Statistics now = engine.statistics();
  EXPECT_EQ(now.kv_blocks_in_use, 0);
  EXPECT_EQ(now.running, 0);
  EXPECT_EQ(now.waiting, 0);
  EXPECT_EQ(now.queued_tokens, 0);
  EXPECT_LE(now.kv_blocks_cached, now.kv_blocks);
}

model::Transformer make_model(const io::ModelConfig& config, const ops::Backend& backend,
                              uint64_t seed) {
  auto transformer = load_tiny(config, model::random_tensors(config, seed), backend);
  NMM_CHECK(transformer.ok());
  return std::move(transformer).value();
}

io::ModelConfig long_config(int64_t context, io::Architecture architecture) {
  io::ModelConfig config = model::tiny_config(architecture);
  config.max_position_embeddings = context;
  return config;
}

int64_t block_bytes(const model::Transformer& transformer) {
  return transformer.make_cache(1)->block_bytes();
}

}  // namespace neuronmm::serve
