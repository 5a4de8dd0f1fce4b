#pragma once
// Writes answers to POST /v1/completions: one text_completion object, or a stream of such objects.
// prepared_generation.cc creates the writer.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/responses/choices_writer.h"
#include "serve/responses/logprob_json.h"

namespace neuronmm::serve {

// Settings that only text completions have.
struct TextCompletionSettings {
  // The text of every prompt, which is sent before its answers. Empty if the client does not want
  // it.
  std::vector<std::string> echo = {};
};

// The writer of one response, which may have several prompts and choices.
class TextCompletionWriter : public ChoicesWriter {
 public:
  TextCompletionWriter(ResponseSettings settings, TextCompletionSettings completion,
                       std::shared_ptr<ResponseSink> sink);

 protected:
  bool add_token(size_t index, const GeneratedToken& token) override;
  void add_end(size_t index, const End& end) override;
  void add_prompt_logprobs(size_t prompt, std::vector<model::TokenLogprobs>&& logprobs) override;
  std::vector<Json> whole_choices() override;
  const char* object_name() const override { return "text_completion"; }

 private:
  struct Choice {
    explicit Choice(OutputDetokenizer text_in) : text(std::move(text_in)) {}
    OutputDetokenizer text;
    bool begun = false, prompt_told = false;
    // The parts of the answer that have not been sent. Without a stream that is the whole answer.
    std::string told;
    TextCompletionLogprobs logprobs;
    std::vector<TokenId> token_ids;
    std::string finish_reason;
    Json stop_reason;
  };
  void begin(size_t index);
  void tell(size_t index, const std::string& text);
  Json choice_json(size_t index, std::string text);

  const TextCompletionSettings completion_;
  std::vector<Choice> choices_;
  std::vector<std::vector<model::TokenLogprobs>> prompt_logprobs_;
};

}  // namespace neuronmm::serve
