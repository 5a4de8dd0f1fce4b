#pragma once
// A fixture for tests of whole fine-tuning runs: a tiny factored model, its dense teacher, texts
// and the request to train it. The helpers throw where a run fails that should succeed.

#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "factored_model.h"
#include "finetune/finetune.h"
#include "finetune/student.h"
#include "ops/reference.h"
#include "text/small_tokenizer.h"

namespace neuronmm::finetune {

namespace fs = std::filesystem;

// Runs the request in a child process that is killed after a step, or in the trial before it.
inline void run_and_die(const FinetuneRequest& request, int64_t step) {
  const pid_t child = fork();
  if (child == 0) {
    set_num_threads(1);
    Progress silent;
    (void)finetune(request, silent, [step](const StepReport& report) {
      if (report.step == step) raise(SIGKILL);
    });
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "step " << step << " was not reached";
}

// Writes the models and texts before each test, and counts on one thread.
class Finetune : public testing::Test {
 protected:
  void SetUp() override {
    set_num_threads(1);  // faster on a busy machine
    config_.vocab_size = 256;
    write_model(input_, config_, factored_tensors(config_, 3));
    write_model(dense_, config_, model::random_tensors(config_, 4));
    input_.write_text("tokenizer.json", text::small_tokenizer().dump());
    input_.write_text("generation_config.json", "{\"eos_token_id\": 1}");
    std::string text;
    for (int i = 0; i < 60; ++i) text += fmt::format("{} sheep, ", i % 7);
    input_.write_text("data.txt", text);
    input_.write_text("other.txt", "THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG");
    dense_.write_text("tokenizer.json", text::small_tokenizer().dump());
    dense_.write_text("generation_config.json", "{\"eos_token_id\": 1}");
  }
  void TearDown() override {
    set_interrupted(false);
    set_num_threads(threads_);
  }

  fs::path path(const std::string& name) const { return outputs_.path() / name; }
  // Returns a request with 34 sequences of at most 16 tokens, of which one is held out: 5 steps in
  // a pass, of which the last one is smaller.
  FinetuneRequest request(const std::string& out) const {
    FinetuneRequest request;
    request.model = input_.path();
    request.out = path(out);
    request.data = input_.path() / "data.txt";
    request.precision = training::Precision::kFp32;
    request.recipe.learning_rate = 1e-2;
    request.recipe.batch = 7;
    request.recipe.cutoff = 16;
    return request;
  }
  Result<FinetuneSummary> run(const FinetuneRequest& request, const OnStep& on_step = {}) {
    return finetune(request, silent_, on_step);
  }
  FinetuneSummary run_or_throw(const FinetuneRequest& request, const OnStep& on_step = {}) {
    auto summary = run(request, on_step);
    if (!summary.ok()) throw std::runtime_error(summary.error().message);
    return std::move(summary).value();
  }
  void expect_refused(const FinetuneRequest& request, std::initializer_list<std::string> words) {
    const auto summary = run(request);
    ASSERT_FALSE(summary.ok());
    for (const std::string& word : words) {
      EXPECT_NE(summary.error().message.find(word), std::string::npos)
          << "no \"" << word << "\" in: " << summary.error().message;
    }
  }
  std::string bytes(const std::string& out, const char* file = "model.safetensors") const {
    std::ifstream stream(path(out) / file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  // Returns a request that uses a teacher, text that it writes, a held-out text and a trial of
  // learning rates, in 12 steps.
  FinetuneRequest request_with_everything(const std::string& out) const {
    FinetuneRequest wanted = request(out);
    wanted.teacher = dense_.path();
    wanted.validation = input_.path() / "other.txt";
    wanted.backend = backend_.get();
    wanted.recipe.learning_rate = 0.0;
    wanted.recipe.tokens = 12 * 7 * 16;
    wanted.recipe.self_generated = 100;
    return wanted;
  }
  std::vector<Example> validation_examples(const FinetuneRequest& request) const {
    std::ifstream stream(request.validation);
    const std::string content(std::istreambuf_iterator<char>(stream), {});
    return read_dataset(content, request.validation, text::Tokenizer::load(input_.path()).value(),
                        config_, request.recipe.cutoff)
        .value()
        .examples;
  }
  // Returns the mean loss of a folder on the validation text of `request`.
  double validation_loss(const fs::path& folder, const FinetuneRequest& request) const {
    StudentOptions options = {.model = folder, .teacher = request.teacher};
    options.rounding = io::ModelConfig::load(folder / "config.json").value().quantization;
    auto student = Student::load(options);
    if (!student.ok()) throw std::runtime_error(student.error().message);
    training::TrainingBatch batch;
    for (const Example& example : validation_examples(request)) {
      batch.sequences.push_back(example.tokens);
      batch.first_scored.push_back(example.scored_from);
    }
    return (*student)->training().loss(batch) / static_cast<double>(batch.scored_tokens());
  }

  const std::unique_ptr<ops::Backend> backend_ = ops::make_reference_backend();
  const int threads_ = num_threads();
  io::ModelConfig config_ = model::tiny_config(io::Architecture::kLlama);
  model::ModelFolder input_, dense_, outputs_;
  Progress silent_;
};

}  // namespace neuronmm::finetune
