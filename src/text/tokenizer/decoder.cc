#include "text/tokenizer/decoder.h"

namespace neuronmm::text {
namespace {

class OutputStage : public DecoderStage {
 public:
  explicit OutputStage(std::string& out) : out_(out) {}
  void push(std::string_view token) override { out_ += token; }
  void finish() override {}

 private:
  std::string& out_;
};

// Joins tokens with spaces, which is what the tokenizers library does if there is no decoder.
class JoinWithSpacesStage : public DecoderStage {
 public:
  void push(std::string_view token) override {
    if (!is_first_) emit(" ");
    is_first_ = false;
    emit(token);
  }

 private:
  bool is_first_ = true;
};

}  // namespace

Decoder::Run::Run(const Decoder& decoder, bool streaming) : out_(std::make_unique<std::string>()) {
  StepContext context{.streaming = streaming};
  for (size_t i = 0; i < decoder.steps_.size(); ++i) {
    context.is_last = i + 1 == decoder.steps_.size();
    context.cuts_do_not_matter =
        context.is_last || decoder.steps_[i + 1].joins == Joins::kRegardlessOfCuts;
    stages_.push_back(decoder.steps_[i].step(context));
    context.joined |= decoder.steps_[i].joins != Joins::kNone;
  }
  if (stages_.empty()) stages_.push_back(std::make_unique<JoinWithSpacesStage>());
  stages_.push_back(std::make_unique<OutputStage>(*out_));
  for (size_t i = 0; i + 1 < stages_.size(); ++i) stages_[i]->set_next(stages_[i + 1].get());
}

}  // namespace neuronmm::text
