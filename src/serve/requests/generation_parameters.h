#pragma once
// Reads the fields that all APIs have in common: how tokens are sampled, where an answer ends and
// in which form it is sent. The readers of requests (chat_request.h and its siblings) call these
// functions. engine_request() (protocol/engine_request.h) turns the result into a request to the
// engine.
//
// A wrong value is recorded in the reader's RequestProblem, and the result then has a default in
// its place. Only the first error is kept; read_body() (field_reader.h) returns it to the client.
// Token ids are compared with the vocabulary later, in engine_request().

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/dry.h"
#include "model/logits_processors.h"
#include "serve/requests/field_reader.h"
#include "serve/requests/response_format.h"
#include "text/tokenizer/token_id.h"

namespace neuronmm::serve {

using text::TokenId;

inline constexpr int64_t kMostLogprobs = 20;  // documented: the limit of OpenAI's API for chats
inline constexpr int64_t kNoTokenLimit = -1;  // asks for as many tokens as fit
// The largest number of stop strings, and the largest length of one in bytes. Assumed: every token
// of an answer is compared with all of them.
inline constexpr size_t kMostStopStrings = 32, kMostStopBytes = 1024;

// Descriptions of fields that several tables have.
inline constexpr const char* kModelMeaning =
    "Name of the model, one of the names that GET /v1/models lists; by default the served model";
inline constexpr const char* kTokenLimitMeaning =
    "Largest number of tokens of the answer. -1 allows as many as fit into the context, and 0 only "
    "reads the prompt. By default max_new_tokens of the model's generation_config.json, else -1";
inline constexpr const char* kEffortMeaning =
    "How much the model should think. \"none\" turns thoughts off, any other text turns them on. "
    "The chat template also gets the text as the variable reasoning_effort, for example \"low\"";

// The parameters of a request. A parameter that may also come from the model's
// generation_config.json is nullopt if the request does not set it.
struct GenerationParameters {
  std::string model;  // empty if the request names no model
  // The largest number of tokens of the answer. kNoTokenLimit allows as many as fit into the
  // context.
  std::optional<int64_t> max_tokens;
  int64_t n = 1;
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k;  // 0 turns top-k sampling off
  double presence_penalty = 0.0, frequency_penalty = 0.0;
  // A repetition penalty for the last tokens. If it is set, the model's own repetition_penalty does
  // not count.
  std::optional<double> repeat_penalty;
  int64_t repeat_last_n = 64;
  bool temperature_last = false;  // whether temperature comes after top_k and the like
  std::optional<std::vector<std::string>> samplers;  // those listed, by llama.cpp's names
  double typical_p = 1.0, xtc_probability = 0.0, xtc_threshold = 0.1;
  model::DryOptions dry;  // without breakers
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  std::vector<model::LogitBias> logit_bias;
  std::optional<uint64_t> seed;  // nothing for a random one
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool include_stop_str_in_output = false, ignore_eos = false, skip_special_tokens = true;
  int64_t min_tokens = 0;
  // Log probabilities are sent for each token of the answer and for this many likely tokens. No log
  // probabilities are sent without a value.
  std::optional<int64_t> logprobs;
  bool stream = false, include_usage = false, continuous_usage = false;
  bool return_token_ids = false, echo = false;
  std::optional<bool> add_special_tokens;
  std::string cache_salt;
  int64_t priority = 0;
  ResponseFormat response_format;
  std::vector<std::string> unknown_fields;  // for the access log
};

// Returns the fields that read_generation_parameters() reads. A table should add
// fields_of_other_servers() (foreign_fields.h) to them.
std::vector<RequestField> generation_fields();
// Returns a field that limits the number of tokens of an answer. Its values are at least
// kNoTokenLimit, and FieldReader::integer() reads it.
RequestField token_limit_field(const char* name, const char* meaning);
// Returns the field n, the number of answers to each prompt.
RequestField answer_count_field();
// Return the fields cache_salt and priority, which requests for embeddings have, too.
RequestField cache_salt_field();
RequestField priority_field();
// Returns the field n of the APIs whose responses are one answer, so that only 1 is allowed.
RequestField single_answer_field();
// Returns the JSON Schema of a list of stop strings.
Json stop_strings_schema();

// Reads all parameters except n, max_tokens, logprobs and unknown_fields, which every API reads in
// its own form. The table of `fields` must contain generation_fields(); a missing field is a
// programming error (NMM_CHECK).
GenerationParameters read_generation_parameters(FieldReader& fields);
// Records an error unless n is 1 or absent. The message contains `why`.
void expect_single_answer(FieldReader& fields, std::string_view why);

// Returns the names of the unknown fields of a body and then the names in `ignored`, for the access
// log. The number of names and their lengths are limited.
std::vector<std::string> unknown_fields(const FieldReader& fields,
                                        const std::vector<std::string>& ignored = {});

}  // namespace neuronmm::serve
