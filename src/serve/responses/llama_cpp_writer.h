#pragma once
// Writes answers to llama.cpp's own endpoints, POST /completion and POST /infill: one object per
// answer, or a stream of events whose last one for each answer has "stop": true.
// protocol/llama_cpp_completion.cc creates the writer.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "serve/responses/line_limit.h"
#include "serve/responses/response_writer.h"

namespace neuronmm::serve {

// Settings that only these endpoints have.
struct LlamaCppSettings {
  bool return_tokens = false, timings_per_token = false, return_progress = false;
  int64_t id_slot = 0, n_indent = 0, t_max_predict_ms = 0, context_tokens = 0;
  std::vector<std::string> response_fields;  // empty: all fields
  std::vector<std::string> prompt_texts;     // by prompt
  std::vector<Json> generation_settings;     // by prompt: the parameters of the answers
};

// The writer of one response, which may have several prompts and answers.
class LlamaCppWriter : public ResponseWriter {
 public:
  LlamaCppWriter(ResponseSettings settings, LlamaCppSettings own,
                 std::shared_ptr<ResponseSink> sink);

 protected:
  void add_start(size_t prompt, const PromptUsage& usage) override;
  bool add_token(size_t index, const GeneratedToken& token) override;
  void add_end(size_t index, const End& end) override;
  void send_rest() override;
  std::string error_body(const ApiError& error) override { return llama_cpp_error_json(error); }
  std::string last_event(const ApiError& error) override;

 private:
  using Clock = std::chrono::steady_clock;

  struct Answer {
    Answer(OutputDetokenizer text_in, int64_t n_indent)
        : text(std::move(text_in)), lines(n_indent) {}
    OutputDetokenizer text;
    LineLimit lines;
    bool late = false, has_new_line = false;
    int64_t tokens_predicted = 0;
    // The parts of the answer that have not been sent. Without a stream that is the whole answer.
    std::string content;
    std::vector<TokenId> tokens;
    Json probabilities = Json::array();
    Clock::time_point first_token, last_token;
    Json body;  // the whole answer, once it has ended
  };
  struct PromptState {
    Clock::time_point start = Clock::now();
    int64_t cached_tokens = 0;
  };

  size_t prompt_number(size_t index) const {
    return index / static_cast<size_t>(settings().choices);
  }
  // Adds a piece of text, as far as the limits of lines and time allow it.
  void add_text(Answer& answer, std::string_view text);
  void send_part(size_t index, const Json& more = Json::object());
  Json part(size_t index);
  Json whole(size_t index, const End& end);
  Json timings(size_t index) const;
  void drop_stop_word(Answer& answer) const;

  const LlamaCppSettings own_;
  std::vector<Answer> answers_;
  std::vector<PromptState> prompts_;
};

}  // namespace neuronmm::serve
