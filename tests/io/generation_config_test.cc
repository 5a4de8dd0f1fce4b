// Tests reading generation_config.json.

#include "io/generation_config.h"

#include "io_test.h"

namespace neuronmm::io {
namespace {

using Ids = std::vector<int32_t>;

// The files are those of Llama-3.2-1B-Instruct and Qwen2.5-0.5B-Instruct, as published.
TEST(GenerationConfig, ReadsPublishedFiles) {
  const auto llama = GenerationConfig::parse(
      R"({"bos_token_id": 128000, "do_sample": true, "eos_token_id": [128001, 128008, 128009],
          "temperature": 0.6, "top_p": 0.9, "transformers_version": "4.45.0.dev0"})",
      "x");
  ASSERT_TRUE(llama.ok()) << llama.error().message;
  EXPECT_EQ(llama->do_sample, true);
  EXPECT_EQ(llama->temperature, 0.6);
  EXPECT_EQ(llama->top_p, 0.9);
  EXPECT_EQ(llama->eos_token_ids, (Ids{128001, 128008, 128009}));
  EXPECT_FALSE(llama->top_k || llama->min_p || llama->repetition_penalty || llama->max_new_tokens);
  const auto qwen = GenerationConfig::parse(
      R"({"bos_token_id": 151643, "pad_token_id": 151643, "do_sample": true,
          "eos_token_id": [151645, 151643], "repetition_penalty": 1.1, "temperature": 0.7,
          "top_p": 0.8, "top_k": 20, "transformers_version": "4.37.0"})",
      "x");
  ASSERT_TRUE(qwen.ok()) << qwen.error().message;
  EXPECT_EQ(qwen->repetition_penalty, 1.1);
  EXPECT_EQ(qwen->top_k, 20);
}

TEST(GenerationConfig, FieldsMayBeAbsentOrNull) {
  for (const char* text : {"{}", R"({"do_sample": null, "temperature": null, "top_k": null,
                                     "eos_token_id": null, "max_new_tokens": null})"}) {
    const auto config = GenerationConfig::parse(text, "x");
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_FALSE(config->do_sample || config->temperature || config->top_k || config->top_p ||
                 config->max_new_tokens || config->eos_token_ids);
  }
}

TEST(GenerationConfig, AConversationHasSettingsThatTheModelDoesNotRecommend) {
  const auto conversation = [](const char* text) {
    return GenerationConfig::parse(text, "x")->for_conversation();
  };
  const auto moderate =
      conversation(R"({"eos_token_id": 2, "max_new_tokens": 9, "repetition_penalty": 1.1})");
  EXPECT_EQ(moderate.do_sample, true);
  EXPECT_EQ(moderate.temperature, 0.7);
  EXPECT_EQ(moderate.top_p, 0.9);
  EXPECT_EQ(moderate.max_new_tokens, 9);
  EXPECT_EQ(moderate.repetition_penalty, 1.1);
  // Any recommendation about sampling leaves all settings as they are.
  for (const char* text : {R"({"do_sample": false})", R"({"temperature": 0.2})", R"({"top_k": 3})",
                           R"({"top_p": 0.5})", R"({"min_p": 0.1})"}) {
    const auto given = GenerationConfig::parse(text, "x");
    EXPECT_TRUE(given->recommends_sampling()) << text;
    const auto settings = conversation(text);
    EXPECT_EQ(settings.do_sample, given->do_sample) << text;
    EXPECT_EQ(settings.temperature, given->temperature) << text;
    EXPECT_EQ(settings.top_p, given->top_p) << text;
  }
}

TEST(GenerationConfig, RangesIncludeTheirEnds) {
  const auto low = GenerationConfig::parse(
      R"({"do_sample": false, "temperature": 0, "top_k": -1, "top_p": 0, "min_p": 0.0,
          "repetition_penalty": 0.01, "max_new_tokens": 1, "eos_token_id": 0})",
      "x");
  ASSERT_TRUE(low.ok()) << low.error().message;
  EXPECT_EQ(low->do_sample, false);
  EXPECT_EQ(low->temperature, 0.0);
  EXPECT_EQ(low->top_k, 0);
  EXPECT_EQ(low->max_new_tokens, 1);
  EXPECT_EQ(low->eos_token_ids, Ids{0});
  const auto high = GenerationConfig::parse(
      R"({"temperature": 100, "top_k": 1073741824, "top_p": 1, "min_p": 1,
          "repetition_penalty": 100.0, "max_new_tokens": 1073741824, "eos_token_id": []})",
      "x");
  ASSERT_TRUE(high.ok()) << high.error().message;
  EXPECT_EQ(high->top_k, int64_t{1} << 30);
  EXPECT_EQ(high->min_p, 1.0);
  EXPECT_EQ(high->eos_token_ids, Ids{});
}

TEST(GenerationConfig, RefusalsNameFieldExpectationAndValue) {
  const auto message = [](const std::string& fields) {
    const auto config = GenerationConfig::parse("{" + fields + "}", "g.json");
    return config.ok() ? "it was read" : config.error().message;
  };
  EXPECT_EQ(message(R"("temperature": -0.5)"),
            "g.json: \"temperature\": expected a number from 0 to 100, found -0.5");
  EXPECT_EQ(message(R"("temperature": 100.5)"),
            "g.json: \"temperature\": expected a number from 0 to 100, found 100.5");
  EXPECT_EQ(message(R"("temperature": "0.6")"),
            "g.json: \"temperature\": expected a number, found \"0.6\"");
  EXPECT_EQ(message(R"("top_p": 1.01)"),
            "g.json: \"top_p\": expected a number from 0 to 1, found 1.01");
  EXPECT_EQ(message(R"("min_p": -1)"),
            "g.json: \"min_p\": expected a number from 0 to 1, found -1");
  EXPECT_EQ(message(R"("repetition_penalty": 0)"),
            "g.json: \"repetition_penalty\": expected a number from 0.01 to 100, found 0");
  EXPECT_EQ(message(R"("top_k": 50.0)"), "g.json: \"top_k\": expected an integer, found 50.0");
  EXPECT_EQ(message(R"("top_k": -2)"),
            "g.json: \"top_k\": expected an integer from -1 to 1073741824, found -2");
  EXPECT_EQ(message(R"("max_new_tokens": 0)"),
            "g.json: \"max_new_tokens\": expected an integer from 1 to 1073741824, found 0");
  EXPECT_EQ(message(R"("do_sample": 1)"), "g.json: \"do_sample\": expected true or false, found 1");
  for (const char* eos : {R"("2")", "2.5", "[1, [2]]", "2147483648", "{}", "true"}) {
    EXPECT_TRUE(message(R"("eos_token_id": )" + std::string(eos))
                    .starts_with("g.json: \"eos_token_id\": expected a token id or a list of them"))
        << eos;
  }
}

// Some files have a negative id for "none".
TEST(GenerationConfig, NegativeIdsEndNothing) {
  EXPECT_EQ(GenerationConfig::parse(R"({"eos_token_id": [-1, 5]})", "x")->eos_token_ids, Ids{5});
  EXPECT_FALSE(GenerationConfig::parse(R"({"eos_token_id": -1})", "x")->eos_token_ids);
  EXPECT_EQ(GenerationConfig::parse(R"({"eos_token_id": []})", "x")->eos_token_ids, Ids{});
}

TEST(GenerationConfig, AFolderMayHaveNoSuchFile) {
  const TemporaryFolder folder;
  const auto none = GenerationConfig::load(folder.path());
  ASSERT_TRUE(none.ok()) << none.error().message;
  EXPECT_FALSE(none->do_sample || none->eos_token_ids);
  put(folder / "generation_config.json", R"({"eos_token_id": 7})");
  EXPECT_EQ(GenerationConfig::load(folder.path())->eos_token_ids, Ids{7});
  for (const char* text : {"[2]", R"({"eos_token_id": 2)", "", R"({"top_p": 2})"}) {
    put(folder / "generation_config.json", text);
    EXPECT_TRUE(fails_with(GenerationConfig::load(folder.path()),
                           {(folder / "generation_config.json").string()}));
  }
}

}  // namespace
}  // namespace neuronmm::io
