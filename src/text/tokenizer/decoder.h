#pragma once
// The decoder of a tokenizer.json: a chain of steps that turn the texts of tokens into one text.
// Each step takes one token at a time. A complete answer (Tokenizer::decode) and a stream of tokens
// (StreamDecoder) therefore run the same steps.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::text {

// The state of one step while it decodes one sequence of tokens.
class DecoderStage {
 public:
  virtual ~DecoderStage() = default;
  // Sets the stage that receives the results. It must outlive this stage.
  void set_next(DecoderStage* next) { next_ = next; }

  // Takes the next token. If an earlier step joins all tokens into one, takes the next part of that
  // token, which ends between two characters.
  virtual void push(std::string_view token) = 0;
  // Says that no more tokens follow, and hands on what is still held back.
  virtual void finish() { next_->finish(); }

 protected:
  void emit(std::string_view token) { next_->push(token); }

 private:
  DecoderStage* next_ = nullptr;
};

// The list of steps. A Run executes them on one sequence of tokens.
class Decoder {
 public:
  // The facts that a step has to know about the other steps.
  struct StepContext {
    bool joined = false;  // An earlier step joins all tokens into one.
    // The result does not depend on how this step's text is cut into tokens.
    bool cuts_do_not_matter = false;
    bool is_last = false;
    // The caller wants text as soon as it is certain.
    bool streaming = false;
  };
  using Step = std::function<std::unique_ptr<DecoderStage>(const StepContext&)>;

  // How a step joins tokens.
  enum class Joins {
    kNone,
    kAll,  // The step joins all tokens into one.
    // The step joins all tokens into one, and gives the same text however its input is cut.
    kRegardlessOfCuts,
  };
  void add(Step step, Joins joins = Joins::kNone) { steps_.push_back({std::move(step), joins}); }
  bool empty() const { return steps_.empty(); }

  // Executes the steps on one sequence of tokens. out() holds the text that the last step has
  // produced.
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
