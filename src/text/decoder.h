#pragma once
// The decoder of a tokenizer.json: steps that turn the texts of tokens into one text. Each works on
// tokens as they come, so that a whole answer and a stream of tokens go through the same steps.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::text {

// One step at work on one sequence of tokens.
class DecoderStage {
 public:
  virtual ~DecoderStage() = default;
  void set_next(DecoderStage* next) { next_ = next; }

  // A token; or, where a step before has joined all tokens into one, the next part of that one,
  // which ends between characters.
  virtual void push(std::string_view token) = 0;
  // No more will come.
  virtual void finish() { next_->finish(); }

 protected:
  void hand_on(std::string_view token) { next_->push(token); }

 private:
  DecoderStage* next_ = nullptr;
};

class Decoder {
 public:
  // What a step has to know of the others.
  struct Place {
    bool joined = false;       // a step before joins all tokens into one
    bool cut_at_will = false;  // how text is cut into tokens does not matter behind this step
    bool is_last = false;
    bool streaming = false;  // text is wanted as soon as it is certain enough
  };
  using Step = std::function<std::unique_ptr<DecoderStage>(const Place&)>;

  enum class Joins {
    kNone,
    kAfter,   // one token comes out
    kAnyhow,  // and how its text was cut into tokens does not matter
  };
  void add(Step step, Joins joins = Joins::kNone) { steps_.push_back({std::move(step), joins}); }
  bool empty() const { return steps_.empty(); }

  // The steps at work: what comes out of the last one is in `out`.
  class Run {
   public:
    Run(const Decoder& decoder, bool streaming);
    void push(std::string_view token) { stages_.front()->push(token); }
    void finish() { stages_.front()->finish(); }
    std::string& out() { return *out_; }

   private:
    std::vector<std::unique_ptr<DecoderStage>> stages_;
    std::unique_ptr<std::string> out_;
  };

 private:
  struct Entry {
    Step step;
    Joins joins;
  };
  std::vector<Entry> steps_;
};

}  // namespace neuronmm::text
