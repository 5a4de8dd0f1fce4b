#pragma once
// Reads the fields that all generating endpoints have in common: how tokens are drawn, where an
// answer ends, and what the response contains. The readers of requests (chat_request.h and others)
// use this file, and engine_request.h turns the result into a request to the engine. Errors are
// recorded in the RequestProblem of the request.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/logits_processors.h"
#include "serve/protocol/field_reader.h"
#include "serve/protocol/response_format.h"
#include "text/token_id.h"

namespace neuronmm::serve {

using text::TokenId;

inline constexpr int64_t kMostLogprobs = 20;  // OpenAI's limit for chats
inline constexpr int64_t kMostChoices = 128;  // OpenAI's limit
// Limits for the number of stop strings and for the bytes of each. Assumed.
inline constexpr size_t kMostStopStrings = 32;
inline constexpr size_t kMostStopBytes = 1024;

// Descriptions of fields that several tables have.
inline constexpr const char* kModelMeaning =
    "One of the names of /v1/models; without it the one that is served";
inline constexpr const char* kTokenLimitMeaning =
    "Tokens of the answer at most; -1: as many as fit; 0: the prompt alone";

// The values of the fields. A field that the request lacks is nullopt if the model's
// generation_config.json may have a default for it.
struct GenerationParameters {
  std::string model;  // empty for the model that is served
  std::optional<int64_t> max_tokens;
  int64_t n = 1;
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k;  // 0 turns it off
  double presence_penalty = 0.0, frequency_penalty = 0.0;
  std::vector<model::LogitBias> logit_bias;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool include_stop_str_in_output = false, ignore_eos = false, skip_special_tokens = true;
  int64_t min_tokens = 0;
  // If set, each token comes with its log probability and those of this many likely tokens.
  std::optional<int64_t> logprobs;
  bool stream = false, include_usage = false, continuous_usage = false;
  bool return_token_ids = false, echo = false;
  std::optional<bool> add_special_tokens;
  std::string cache_salt;
  int64_t priority = 0;
  ResponseFormat response_format;
  std::vector<std::string> unknown_fields;  // names for the access log
};

// Returns the fields that read_generation_parameters reads.
std::vector<RequestField> generation_fields();
// Returns a field for the largest number of tokens of an answer; read_token_limit reads it.
RequestField token_limit_field(const char* name, const char* meaning);
// Return the field "n": of APIs that have several answers, and of those that allow only one.
RequestField answer_count_field();
RequestField single_answer_field();
// Returns the schema of an array of stop strings.
Json stop_strings_schema();

// Reads all values except n, max_tokens, logprobs and unknown_fields, which differ between APIs.
GenerationParameters read_generation_parameters(FieldReader& fields);
// Reads a token limit. As in llama.cpp, -1 means no limit but the context, and returns nullopt.
std::optional<int64_t> read_token_limit(FieldReader& fields, const std::string& key);
// Records an error unless n is 1 or absent. `why` goes into the message.
void expect_single_answer(FieldReader& fields, std::string_view why);

// Returns the names of fields that the table lacks, and then `left_out`. The list and each name are
// cut to a length that fits into a line of the log.
std::vector<std::string> unknown_fields(const FieldReader& fields,
                                        const std::vector<std::string>& left_out = {});

}  // namespace neuronmm::serve
