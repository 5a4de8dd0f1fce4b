#pragma once
// The fields that chat and text completions have in common: which tokens are drawn, where an answer
// ends and how it is told.

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
inline constexpr size_t kMostStopStrings = 32;
inline constexpr size_t kMostStopBytes = 1024;  // of one stop string

inline constexpr const char* kModelMeaning =
    "One of the names of /v1/models; without it the one that is served";
inline constexpr const char* kTokenLimitMeaning =
    "Tokens of the answer at most; -1: as many as fit; 0: the prompt alone";

// What a request does not say is nullopt where the model's generation_config.json may say it.
struct GenerationParameters {
  std::string model;  // empty: the one that is served
  std::optional<int64_t> max_tokens;
  int64_t n = 1;
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k;  // 0: off
  double presence_penalty = 0.0, frequency_penalty = 0.0;
  std::vector<model::LogitBias> logit_bias;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool include_stop_str_in_output = false, ignore_eos = false, skip_special_tokens = true;
  int64_t min_tokens = 0;
  std::optional<int64_t> logprobs;  // of every token, and of so many likely ones beside it
  bool stream = false, include_usage = false, continuous_usage = false;
  bool return_token_ids = false, echo = false;
  std::optional<bool> add_special_tokens;
  std::string cache_salt;
  int64_t priority = 0;
  ResponseFormat response_format;
  std::vector<std::string> unknown_fields;  // for a line of the log
};

// The fields that read_generation_parameters reads.
std::vector<RequestField> generation_fields();
// A limit of tokens that the answer may have, and n of the APIs whose responses are one answer.
RequestField token_limit_field(const char* name, const char* meaning);
RequestField answer_count_field();
RequestField single_answer_field();
Json stop_strings_schema();

// All but n, max_tokens, logprobs and unknown_fields, which differ.
GenerationParameters read_generation_parameters(FieldReader& fields);
// How many tokens may be made; -1, as in llama.cpp: as many as there is room for.
std::optional<int64_t> read_token_limit(FieldReader& fields, const std::string& key);
// Records an error unless n is 1 or absent. `why` goes into the message.
void expect_single_answer(FieldReader& fields, std::string_view why);

// The names for a log line: few, and short. `ignored`: more of them.
std::vector<std::string> unknown_fields(const FieldReader& fields,
                                        const std::vector<std::string>& ignored = {});

}  // namespace neuronmm::serve
