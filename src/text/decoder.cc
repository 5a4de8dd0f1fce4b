#include "text/decoder.h"

namespace neuronmm::text {
namespace {

class Out : public DecoderStage {
 public:
  explicit Out(std::string& out) : out_(out) {}
  void push(std::string_view token) override { out_ += token; }
  void finish() override {}

 private:
  std::string& out_;
};

// Joins tokens with spaces, which is what the tokenizers library does if there is no decoder.
class Spaced : public DecoderStage {
 public:
  void push(std::string_view token) override {
    if (!is_first_) hand_on(" ");
    is_first_ = false;
    hand_on(token);
  }

 private:
  bool is_first_ = true;
};

}  // namespace

Decoder::Run::Run(const Decoder& decoder, bool streaming) : out_(std::make_unique<std::string>()) {
  Place place{.streaming = streaming};
  for (size_t i = 0; i < decoder.steps_.size(); ++i) {
    place.is_last = i + 1 == decoder.steps_.size();
    place.cut_at_will = place.is_last || decoder.steps_[i + 1].joins == Joins::kAnyhow;
    stages_.push_back(decoder.steps_[i].step(place));
    place.joined |= decoder.steps_[i].joins != Joins::kNone;
  }
  if (stages_.empty()) stages_.push_back(std::make_unique<Spaced>());
  stages_.push_back(std::make_unique<Out>(*out_));
  for (size_t i = 0; i + 1 < stages_.size(); ++i) stages_[i]->set_next(stages_[i + 1].get());
}

}  // namespace neuronmm::text
