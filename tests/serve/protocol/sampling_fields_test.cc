// Tests the fields about sampling: which values they take, what becomes of them, and what becomes
// of fields that other servers have.

#include "serve/requests/sampling_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/protocol/fake_server.h"
#include "serve/requests/foreign_fields.h"

namespace neuronmm::serve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Json anthropic_body() {
  Json body = chat_body();
  body["max_tokens"] = 5;
  return body;
}

struct Api {
  decltype(&prepare_chat_completion) prepare;
  Json body;
};

std::vector<Api> apis() {
  return {{prepare_chat_completion, chat_body()},
          {prepare_text_completion, completion_body()},
          {prepare_anthropic, anthropic_body()},
          {prepare_responses_api, {{"input", "Hi"}}}};
}

// Returns what every API makes of a body with these fields.
std::vector<Exchange> exchanges(const ServedModel& model, const Json& fields) {
  std::vector<Exchange> results;
  for (const Api& api : apis()) {
    Json body = api.body;
    body.update(fields);
    results.push_back(exchange_by(api.prepare, model, body, {says("a")}));
  }
  return results;
}

TEST(SamplingFields, ReachTheEngineFromEveryApi) {
  const ServedFolder folder;
  for (const Exchange& asked : exchanges(folder.model, Json::parse(R"({
        "repeat_penalty": 1.2, "repeat_last_n": -1, "typical_p": 0.9, "xtc_probability": 0.5,
        "xtc_threshold": 0.2, "dry_multiplier": 0.8, "dry_base": 1.5, "dry_allowed_length": 3,
        "dry_penalty_last_n": 77, "dry_sequence_breakers": ["q"]})"))) {
    ASSERT_FALSE(asked.error) << asked.error->message;
    const model::SamplingOptions& sampling = asked.requests.at(0).sampling;
    EXPECT_EQ(sampling.repeat_penalty, 1.2);
    EXPECT_EQ(sampling.repeat_last_n, -1);
    EXPECT_EQ(sampling.typical_p, 0.9);
    EXPECT_EQ(sampling.xtc_probability, 0.5);
    EXPECT_EQ(sampling.xtc_threshold, 0.2);
    EXPECT_EQ(sampling.dry.multiplier, 0.8);
    EXPECT_EQ(sampling.dry.base, 1.5);
    EXPECT_EQ(sampling.dry.allowed_length, 3);
    EXPECT_EQ(sampling.dry.last_n, 77);
    ASSERT_TRUE(sampling.dry.breakers);
    EXPECT_EQ(sampling.dry.breakers->tails_of_head.size(), 1u);
  }
}

TEST(SamplingFields, AreOffByDefault) {
  const ServedFolder folder;
  for (const Exchange& asked : exchanges(folder.model, Json::object())) {
    const model::SamplingOptions& sampling = asked.requests.at(0).sampling;
    EXPECT_FALSE(sampling.penalises_recent_tokens() || sampling.dry.active());
    EXPECT_EQ(sampling.typical_p, 1.0);
    EXPECT_EQ(sampling.xtc_probability, 0.0);
    EXPECT_EQ(sampling.repeat_last_n, 64);
    EXPECT_EQ(sampling.dry.base, 1.75);
    EXPECT_FALSE(sampling.dry.breakers);
  }
}

TEST(SamplingFields, ARepeatPenaltyReplacesTheModelsRepetitionPenalty) {
  const ServedFolder folder;
  ServedModel model = folder.model;
  model.generation.repetition_penalty = 1.1;
  for (const Exchange& asked : exchanges(model, {{"repeat_penalty", 1.0}}))
    EXPECT_EQ(asked.requests.at(0).sampling.repetition_penalty, 1.0);
  for (const Exchange& asked :
       exchanges(model, {{"repeat_penalty", 1.3}, {"repetition_penalty", 1.2}})) {
    EXPECT_EQ(asked.requests.at(0).sampling.repetition_penalty, 1.2);
    EXPECT_EQ(asked.requests.at(0).sampling.repeat_penalty, 1.3);
  }
  for (const Exchange& asked : exchanges(model, {{"repeat_last_n", 10}}))
    EXPECT_EQ(asked.requests.at(0).sampling.repetition_penalty, 1.1);
}

// The fake source of random numbers counts up from 7.
TEST(SamplingFields, ASeedOfMinusOneIsAsNoSeed) {
  const ServedFolder folder;
  const std::vector<Exchange> without = exchanges(folder.model, Json::object()),
                              minus_one = exchanges(folder.model, {{"seed", -1}}),
                              minus_two = exchanges(folder.model, {{"seed", -2}});
  for (size_t i = 0; i < without.size(); ++i) {
    EXPECT_EQ(minus_one[i].requests.at(0).sampling.seed, without[i].requests.at(0).sampling.seed);
    EXPECT_EQ(minus_two[i].requests.at(0).sampling.seed, ~uint64_t{1});
  }
}

model::SamplingOptions sampling_with(const ServedFolder& folder, const Json& samplers) {
  ServedModel model = folder.model;
  model.generation.top_k = 20;
  Json body = chat_body();
  body.update({{"samplers", samplers},
               {"temperature", 0.5},
               {"top_p", 0.9},
               {"min_p", 0.1},
               {"typical_p", 0.8},
               {"xtc_probability", 0.3},
               {"repeat_penalty", 1.2},
               {"frequency_penalty", 0.5},
               {"dry_multiplier", 0.7}});
  const Exchange asked = exchange(model, body, {says("")});
  EXPECT_FALSE(asked.error) << asked.error->message;
  return asked.error ? model::SamplingOptions() : asked.requests.at(0).sampling;
}

TEST(SamplingFields, SamplersThatAreNotListedAreOff) {
  const ServedFolder folder;
  for (const Json& list : {Json({"top_k", "typ_p", "top_p", "min_p", "temperature"}),
                           Json("top_k;typ_p;top_p;min_p;temperature"), Json("kypmt")}) {
    const model::SamplingOptions some = sampling_with(folder, list);
    EXPECT_TRUE(some.temperature_last);
    EXPECT_EQ(some.temperature, 0.5);
    EXPECT_EQ(some.top_k, 20);
    EXPECT_EQ(some.top_p, 0.9);
    EXPECT_EQ(some.typical_p, 0.8);
    EXPECT_EQ(some.xtc_probability, 0.0);
    EXPECT_EQ(some.repeat_penalty, 1.0);
    EXPECT_EQ(some.frequency_penalty, 0.0);
    EXPECT_FALSE(some.dry.active());
  }
  const model::SamplingOptions all = sampling_with(folder, "edskypmxt");
  EXPECT_TRUE(all.temperature_last && all.dry.active() && all.penalises_recent_tokens());
  EXPECT_EQ(all.xtc_probability, 0.3);
  const model::SamplingOptions first = sampling_with(folder, {"temperature", "top_k"});
  EXPECT_FALSE(first.temperature_last);
  EXPECT_EQ(first.top_p, 1.0);
  EXPECT_EQ(sampling_with(folder, "top_k").temperature, 1.0);
  EXPECT_EQ(sampling_with(folder, "").top_p, 0.9);
}

TEST(SamplingFields, AnotherOrderOfSamplersIsRefused) {
  const ServedFolder folder;
  for (const Json& list : {Json({"top_p", "top_k"}), Json({"top_k", "temperature", "top_p"}),
                           Json({"top_k", "top_k"}), Json({"temperature", "top_k", "temperature"}),
                           Json({"wrong"}), Json("pk"), Json("top_k;wrong"), Json(1)}) {
    Json body = chat_body();
    body["samplers"] = list;
    const Exchange asked = exchange(folder.model, body, {});
    ASSERT_TRUE(asked.error) << list;
    EXPECT_EQ(asked.error->param, "samplers");
  }
}

TEST(SamplingFields, StopSequencesAreStops) {
  const ServedFolder folder;
  for (const char* fields : {R"({"stop_sequences": ["lo"]})", R"({"stop_sequences": "lo"})",
                             R"({"stop": ["xx"], "stop_sequences": ["", "lo"]})"}) {
    Json body = chat_body();
    body.update(Json::parse(fields));
    const Exchange asked = exchange(folder.model, body, {says("hello")});
    ASSERT_FALSE(asked.error) << asked.error->message;
    EXPECT_EQ(asked.body()["choices"][0]["message"]["content"], "hel") << fields;
  }
}

std::vector<std::string> breakers_of(const Json& value) {
  RequestProblem problem;
  const RequestTable table = {sampling_fields()};
  const Json body = {{"dry_sequence_breakers", value}};
  FieldReader fields(body, "", problem, &table);
  GenerationParameters parameters;
  read_sampling(fields, parameters);
  if (problem.found()) return {problem.error().message};
  return parameters.dry_sequence_breakers;
}

TEST(SamplingFields, BreakersMayBeAnArrayOrTheTextOfOne) {
  EXPECT_THAT(breakers_of(nullptr), ElementsAre("\n", ":", "\"", "*"));
  EXPECT_THAT(breakers_of({"a", "", "b"}), ElementsAre("a", "b"));
  EXPECT_THAT(breakers_of(Json::array()), ElementsAre());
  EXPECT_THAT(breakers_of(R"("\n", ":", "\"", "*")"), ElementsAre("\n", ":", "\"", "*"));
  EXPECT_THAT(breakers_of(R"(["\n", "x"])"), ElementsAre("\n", "x"));
  EXPECT_THAT(breakers_of("x"), ElementsAre("x"));
  EXPECT_THAT(breakers_of({"a", 1}), ElementsAre(HasSubstr("dry_sequence_breakers: expected")));
  EXPECT_THAT(breakers_of(1), ElementsAre(HasSubstr("dry_sequence_breakers: expected")));
}

// The tokens of the test's tokenizer are bytes, so a text of two bytes begins with its first byte.
TEST(SequenceBreakers, HaveTheTokensThatFollowTheirHead) {
  const ServedFolder folder;
  const std::vector<std::string> texts = {"ab", "a", "xyz"};
  const model::SequenceBreakers breakers = sequence_breakers(folder.tokenizer(), texts);
  EXPECT_EQ(breakers.tails_of_head.at('a'), (std::vector<std::vector<TokenId>>{{'b'}, {}}));
  EXPECT_EQ(breakers.tails_of_head.at('x'), (std::vector<std::vector<TokenId>>{{'y', 'z'}}));
  // The names of special tokens contain letters, too.
  EXPECT_FALSE(breakers.tails_of_head.contains('b'));
  EXPECT_FALSE(breakers.tails_of_head.contains('y'));
}

TEST(ForeignFields, SamplersOfOtherServersAreRefusedUnlessTheyAreOff) {
  const ServedFolder folder;
  for (const char* off :
       {R"({"mirostat": 0, "mirostat_tau": 5, "mirostat_eta": 0.1})", R"({"mirostat_mode": 0})",
        R"({"dynatemp_range": 0.0, "dynatemp_exponent": 1})", R"({"tfs_z": 1, "tfs": 1.0})",
        R"({"top_n_sigma": -1})", R"({"top_n_sigma": 0, "nsigma": 0, "top_a": 0})",
        R"({"do_sample": true, "add_bos_token": true})", R"({"smoothing_factor": 0})",
        R"({"samplers": null, "sampler_order": []})", R"({"guidance_scale": 1, "num_beams": 1})",
        R"({"keep_alive": "5m", "cache_prompt": false, "id_slot": -1, "ttl": 60})"}) {
    for (const Exchange& asked : exchanges(folder.model, Json::parse(off))) {
      EXPECT_FALSE(asked.error) << asked.error->message;
      EXPECT_THAT(asked.unknown_fields, ElementsAre()) << off;
    }
  }
  for (const char* on :
       {R"({"mirostat": 2})", R"({"mirostat_mode": 1})", R"({"dynatemp_range": 0.5})",
        R"({"tfs_z": 0.9})", R"({"top_n_sigma": 1.5})", R"({"top_n_sigma": "0"})",
        R"({"do_sample": false})", R"({"smoothing_factor": 0.2})", R"({"sampler_order": [1]})",
        R"({"adaptive_target": 0.5})", R"({"rep_pen": 1.2})", R"({"stop_regex": "a"})",
        R"({"truncation_length": 100})", R"({"num_beams": 4})", R"({"n_probs": 3})"}) {
    const Json fields = Json::parse(on);
    for (const Exchange& asked : exchanges(folder.model, fields)) {
      ASSERT_TRUE(asked.error) << on;
      EXPECT_EQ(asked.error->status, 400);
      EXPECT_EQ(asked.error->param, fields.begin().key());
      EXPECT_THAT(asked.error->message, HasSubstr("not supported")) << on;
    }
  }
}

TEST(ForeignFields, AMessageSaysWhatIsAllowedAndWhatToUse) {
  const ServedFolder folder;
  Json body = chat_body();
  body["rep_pen"] = 1.2;
  EXPECT_EQ(exchange(folder.model, body, {}).error->message,
            "rep_pen: not supported: expected repeat_penalty instead; expected 1 or nothing, "
            "found 1.2");
  body = chat_body();
  body["top_n_sigma"] = 2;
  EXPECT_THAT(exchange(folder.model, body, {}).error->message,
              HasSubstr("expected at most 0 or nothing, found 2"));
}

TEST(ForeignFields, OnlyFieldsThatNoServerKnowsAreUnknown) {
  const ServedFolder folder;
  for (const Exchange& asked : exchanges(folder.model, {{"temprature", 1}, {"user", "u"}})) {
    EXPECT_FALSE(asked.error);
    EXPECT_THAT(asked.unknown_fields, ElementsAre("temprature"));
  }
}

// A table's own field has precedence, so an API can implement what the others refuse.
TEST(ForeignFields, GiveWayToAnApisOwnFields) {
  const RequestTable table = RequestTable({{RequestField::number("mirostat", 0, 2, "own")}})
                                 .with_others(fields_of_other_servers());
  EXPECT_EQ(table.find("mirostat")->type, RequestField::Type::kNumber);
  EXPECT_EQ(table.find("tfs_z")->type, RequestField::Type::kNotSupported);
}

TEST(ServedNames, AnswersHaveTheFirstNameUnlessAnyNameIsServed) {
  const ServedFolder folder;
  ServedModel model = folder.model;  // "small" and "alias"
  const auto named = [&](const std::string& name) {
    Json body = chat_body();
    body["model"] = name;
    const Exchange asked = exchange(model, body, {says("a")});
    return asked.error ? asked.error->code : asked.body()["model"].get<std::string>();
  };
  EXPECT_EQ(named("alias"), "small");
  EXPECT_EQ(named("small"), "small");
  EXPECT_EQ(named("gpt-4o"), "model_not_found");
  EXPECT_THAT(models_json(model), HasSubstr("\"alias\""));
  model.any_name = true;
  EXPECT_EQ(named("alias"), "small");
  EXPECT_EQ(named("gpt-4o"), "gpt-4o");
  EXPECT_EQ(named(""), "small");
  EXPECT_EQ(named(std::string(256, 'a')), std::string(256, 'a'));
  EXPECT_EQ(named(std::string(257, 'a')), "model_not_found");
  EXPECT_TRUE(model_json(model, "gpt-4o").ok());
}

}  // namespace
}  // namespace neuronmm::serve
