#pragma once
// Parses the bodies of llama.cpp's own endpoints, POST /completion and POST /infill. The result
// has the parameters that all APIs share and what only llama.cpp's clients ask for.
// docs/reference/llama_cpp_protocol.md lists the fields.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/requests/generation_parameters.h"
#include "serve/requests/llama_cpp_values.h"

namespace neuronmm::serve {

// A file that is shown to the model before the place that it fills in.
struct InfillFile {
  std::string name, text;
};

struct LlamaCppRequest {
  // `max_tokens` is kNoTokenLimit if the client gives no limit. `logit_bias` is empty: the biases
  // are in the list of the same name below.
  GenerationParameters parameters;
  std::vector<TextBias> logit_bias;
  std::vector<MixedText> prompts;  // at least one; for /infill the text behind the middle's begin
  bool cache_prompt = true, return_tokens = false, timings_per_token = false;
  bool return_progress = false;
  int64_t id_slot = -1, n_keep = 0, n_discard = 0, min_keep = 0;
  // Lines after the first end the answer if they begin with fewer blanks. 0 allows all.
  int64_t n_indent = 0;
  // Milliseconds after the first token at which the next line end ends the answer. Nothing ends it
  // if this is not positive.
  int64_t t_max_predict_ms = 0;
  std::vector<std::string> response_fields;  // empty: all fields
  MixedText input_prefix, input_suffix;      // of /infill
  std::vector<InfillFile> input_extra;
};

inline constexpr int64_t kMostProbabilities = 100;  // of n_probs
// Return the tables of the fields of the bodies.
const RequestTable& llama_cpp_completion_table();
const RequestTable& llama_cpp_infill_table();

// Parse a body. The error is for the client, with status 400. It names the first wrong field; a
// body that is not JSON is an error, too.
ApiResult<LlamaCppRequest> parse_llama_cpp_completion(std::string_view body);
ApiResult<LlamaCppRequest> parse_llama_cpp_infill(std::string_view body);

}  // namespace neuronmm::serve
