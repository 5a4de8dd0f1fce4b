// Tests reading the parameters of rotary embeddings from config.json.

#include "io/rope_scaling.h"

#include <limits>

#include "config_text.h"
#include "io/model_config.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

// Parses a config of head_dim 4 and 128 positions.
Result<ModelConfig> parse_with(const std::string& changes) {
  return ModelConfig::parse(config_with(R"({"head_dim":4})", "LlamaForCausalLM").insert(1, changes),
                            "config.json");
}

// Parses a config with the fields of `scaling` in "rope_scaling".
Result<ModelConfig> parse_scaling(const std::string& scaling) {
  return parse_with(R"("rope_scaling":{)" + scaling + "},");
}

ModelConfig rope_config_of(const Result<ModelConfig>& config) {
  EXPECT_TRUE(config.ok()) << config.error().message;
  return config.ok() ? *config : ModelConfig{};
}

template <typename Scaling>
Scaling scaling_of(const std::string& scaling) {
  const ModelConfig config = rope_config_of(parse_scaling(scaling));
  const auto* const found = std::get_if<Scaling>(&config.ropes[0].scaling);
  EXPECT_NE(found, nullptr) << rope_type(config.ropes[0].scaling);
  return found != nullptr ? *found : Scaling{};
}

const std::string kLlama3 =
    R"("rope_type":"llama3","factor":32.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
       "original_max_position_embeddings":8192)";
const std::string kYarn = R"("rope_type":"yarn","factor":4.0)";
const std::string kLongRope =
    R"("rope_type":"longrope","short_factor":[1,1.5],"long_factor":[2,8.5])";

TEST(RopeScaling, EveryTypeIsReadByItsName) {
  const auto llama3 = scaling_of<Llama3RopeScaling>(kLlama3);
  EXPECT_EQ(llama3.factor, 32.0);
  EXPECT_EQ(llama3.original_max_position_embeddings, 8192.0);
  EXPECT_EQ(scaling_of<LinearRopeScaling>(R"("type":"linear","factor":4.0)").factor, 4.0);
  EXPECT_EQ(scaling_of<DynamicRopeScaling>(R"("type":"dynamic","factor":2.0)").factor, 2.0);
  scaling_of<std::monostate>(R"("rope_type":"default")");
  scaling_of<std::monostate>(R"("type":"default")");
  for (const auto& [scaling, type] :
       {std::pair(kYarn, "yarn"), std::pair(kLongRope, "longrope"), std::pair(kLlama3, "llama3")}) {
    EXPECT_EQ(rope_type(rope_config_of(parse_scaling(scaling)).ropes[0].scaling), type);
  }
}

TEST(RopeScaling, UnknownTypesAndShapesAreRefused) {
  for (const std::string type : {"su", "mrope", "proportional", "axial", "YaRN", ""}) {
    EXPECT_TRUE(fails_with(parse_scaling(R"("factor":2,"type":")" + type + "\""),
                           {"\"rope_scaling\": \"type\"", "longrope", "\"" + type + "\""}));
  }
  EXPECT_TRUE(fails_with(parse_with(R"("rope_scaling":3,)"), {"rope_scaling", "an object"}));
  EXPECT_TRUE(fails_with(parse_scaling(R"("factor":2)"), {"rope_type", "missing"}));
  EXPECT_TRUE(fails_with(parse_scaling(R"("rope_type":7)"), {"rope_type", "found 7"}));
  EXPECT_TRUE(
      fails_with(parse_with(R"("rope_parameters":{"full_attention":{"rope_type":"yarn"}},)"),
                 {"rope_parameters", "full_attention", "all layers"}));
  EXPECT_TRUE(fails_with(parse_scaling(kYarn + R"(,"partial_rotary_factor":0.5)"),
                         {"rope_scaling", "partial_rotary_factor", "found 0.5"}));
}

TEST(RopeScaling, FieldsWithoutADefaultAreRequired) {
  for (const std::string type : {"linear", "dynamic", "llama3", "yarn"}) {
    EXPECT_TRUE(fails_with(parse_scaling(R"("rope_type":")" + type + "\""),
                           {"rope_scaling", "\"factor\" is missing"}))
        << type;
  }
  EXPECT_TRUE(fails_with(parse_scaling(R"("rope_type":"longrope","long_factor":[1,2])"),
                         {"\"short_factor\" is missing"}));
  EXPECT_TRUE(fails_with(parse_scaling(R"("rope_type":"longrope","short_factor":[1,2])"),
                         {"\"long_factor\" is missing"}));
  const ModelConfig llama3 = rope_config_of(
      parse_scaling(R"("rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4)"));
  EXPECT_EQ(std::get<Llama3RopeScaling>(llama3.ropes[0].scaling).original_max_position_embeddings,
            llama3.max_position_embeddings)
      << "the default of transformers 5";
}

TEST(RopeScaling, NumbersOutOfRangeAreRefusedByName) {
  struct Case {
    std::string scaling, field;
  };
  std::vector<Case> cases = {{R"("rope_type":"linear","factor":0)", "factor"},
                             {R"("rope_type":"llama3","factor":0)", "factor"}};
  for (const std::string type : {"linear", "dynamic", "llama3", "yarn"}) {
    for (const std::string factor : {"-4", "1e10", "\"4\"", "true", "[4]"})
      cases.push_back({R"("rope_type":")" + type + R"(","factor":)" + factor, "factor"});
  }
  for (const std::string field : {"beta_fast", "beta_slow", "mscale", "mscale_all_dim",
                                  "attention_factor", "original_max_position_embeddings"}) {
    for (const std::string number : {"-1", "1e300", "\"a\""})
      cases.push_back({kYarn + ",\"" + field + "\":" + number, field});
  }
  cases.push_back({kYarn + R"(,"attention_factor":0)", "attention_factor"});
  cases.push_back({kYarn + R"(,"truncate":1)", "truncate"});
  cases.push_back({kYarn + R"(,"rope_theta":1)", "rope_theta"});
  for (const std::string field : {"factor", "attention_factor", "original_max_position_embeddings"})
    cases.push_back({kLongRope + ",\"" + field + "\":-1", field});
  cases.push_back({kLongRope + R"(,"original_max_position_embeddings":1)", "original_max"});
  for (const auto& [scaling, field] : cases)
    EXPECT_TRUE(fails_with(parse_scaling(scaling), {"config.json: \"rope_scaling\"", field}))
        << scaling;
  // JSON has no NaN, and a number that overflows is refused.
  EXPECT_FALSE(parse_scaling(R"("rope_type":"yarn","factor":NaN)").ok());
  EXPECT_FALSE(parse_scaling(R"("rope_type":"yarn","factor":1e999)").ok());
}

TEST(RopeScaling, FrequencyBoundsMustBeInOrder) {
  EXPECT_TRUE(fails_with(parse_scaling(R"("rope_type":"llama3","factor":8,"low_freq_factor":4,
                "high_freq_factor":4,"original_max_position_embeddings":8192)"),
                         {"low_freq_factor < high_freq_factor"}));
  EXPECT_TRUE(fails_with(parse_scaling(kYarn + R"(,"beta_fast":2,"beta_slow":3)"),
                         {"beta_slow <= beta_fast", "found 3 and 2"}));
  EXPECT_TRUE(parse_scaling(kYarn + R"(,"beta_fast":2,"beta_slow":2)").ok());
}

TEST(RopeScaling, LongRopeHasAFactorForEveryPair) {
  const auto longrope = scaling_of<LongRopeScaling>(kLongRope);
  EXPECT_EQ(longrope.short_factor, (std::vector<double>{1.0, 1.5}));
  EXPECT_EQ(longrope.long_factor, (std::vector<double>{2.0, 8.5}));
  for (const std::string list :
       {"[]", "[1]", "[1,2,3]", "[1,0]", "[1,-2]", "[1,\"2\"]", "[1,null]", "[[1,2]]", "2", "{}"}) {
    for (const auto& [wrong, right] :
         {std::pair("short_factor", "long_factor"), std::pair("long_factor", "short_factor")}) {
      EXPECT_TRUE(fails_with(parse_scaling(std::string(R"("rope_type":"longrope",")") + wrong +
                                           "\":" + list + ",\"" + right + "\":[1,2]"),
                             {"rope_scaling", wrong, "expected"}))
          << list;
    }
  }
}

TEST(RopeScaling, DefaultsAreThoseOfTransformers) {
  const auto yarn = scaling_of<YarnRopeScaling>(kYarn);
  EXPECT_EQ(yarn.original_max_position_embeddings, 128);
  EXPECT_EQ(yarn.beta_fast, 32.0);
  EXPECT_EQ(yarn.beta_slow, 1.0);
  EXPECT_TRUE(yarn.truncate);
  EXPECT_FALSE(yarn.attention_factor);
  EXPECT_FALSE(scaling_of<YarnRopeScaling>(kYarn + R"(,"truncate":false)").truncate);
  const auto half =
      scaling_of<LongRopeScaling>(kLongRope + R"(,"original_max_position_embeddings":64)");
  EXPECT_EQ(half.factor, 2.0);
  EXPECT_FALSE(half.attention_factor);
  // Phi-3 has its original context next to rope_scaling. That value takes precedence.
  const ModelConfig both_given =
      rope_config_of(parse_with(R"("original_max_position_embeddings":32,"rope_scaling":{)" +
                                kLongRope + R"(,"original_max_position_embeddings":64},)"));
  EXPECT_EQ(std::get<LongRopeScaling>(both_given.ropes[0].scaling).factor, 4.0);
}

TEST(RopeScaling, TheLongestSequenceFollowsTheScaling) {
  const auto positions = [](const std::string& scaling) {
    return rope_config_of(parse_scaling(scaling)).max_position_embeddings;
  };
  EXPECT_EQ(positions(R"("rope_type":"dynamic","factor":2.0)"), 128);
  EXPECT_EQ(positions(kLlama3), 128);
  EXPECT_EQ(positions(kYarn), 512);
  EXPECT_EQ(positions(kYarn + R"(,"original_max_position_embeddings":64)"), 256);
  EXPECT_EQ(positions(kYarn + R"(,"original_max_position_embeddings":16)"), 128);
  EXPECT_EQ(positions(R"("rope_type":"yarn","factor":1e9)"), int64_t{1} << 24);
  EXPECT_EQ(positions(kLongRope), 128);
  EXPECT_EQ(positions(kLongRope + R"(,"original_max_position_embeddings":64)"), 128);
  EXPECT_EQ(positions(kLongRope + R"(,"original_max_position_embeddings":256)"), 128);
  const std::string same = R"("rope_type":"longrope","short_factor":[1,2],"long_factor":[1,2])";
  EXPECT_EQ(positions(same + R"(,"original_max_position_embeddings":64)"), 128);
}

TEST(RopeScaling, RopeParametersOfNewerConfigsAreRead) {
  const ModelConfig plain = rope_config_of(
      parse_with(R"("rope_parameters":{"rope_theta":500000.0,"rope_type":"default"},)"));
  EXPECT_EQ(plain.ropes[0].theta, 500000.0);
  EXPECT_EQ(rope_type(plain.ropes[0].scaling), "default");
  EXPECT_EQ(rope_type(rope_config_of(parse_with(R"("rope_parameters":{},)")).ropes[0].scaling),
            "default");
  const ModelConfig scaled =
      rope_config_of(parse_with(R"("rope_parameters":{"rope_theta":1000000.0,)" + kYarn + "},"));
  EXPECT_EQ(scaled.ropes[0].theta, 1000000.0);
  EXPECT_EQ(rope_type(scaled.ropes[0].scaling), "yarn");
  EXPECT_EQ(rope_config_of(parse_scaling(kYarn + R"(,"rope_theta":5000)")).ropes[0].theta, 5000.0);
  EXPECT_TRUE(fails_with(parse_with(R"("rope_parameters":{"rope_type":"yarn"},)"),
                         {"rope_parameters", "factor", "missing"}));
}

// The expected values are those of transformers 5.23.
TEST(RopeScaling, RopeScalingTakesPrecedenceUnlessItIsEmpty) {
  const std::string newer =
      R"("rope_parameters":{"rope_type":"dynamic","factor":3.0,"rope_theta":7.0},"rope_theta":9.0,)";
  const ModelConfig both =
      rope_config_of(parse_with(R"("rope_scaling":{"type":"linear","factor":2.0},)" + newer));
  EXPECT_EQ(rope_type(both.ropes[0].scaling), "linear");
  EXPECT_EQ(both.ropes[0].theta, 9.0);
  for (const std::string empty : {"{}", "null", "[]"}) {
    const ModelConfig one = rope_config_of(parse_with(R"("rope_scaling":)" + empty + "," + newer));
    EXPECT_EQ(rope_type(one.ropes[0].scaling), "dynamic") << empty;
    EXPECT_EQ(one.ropes[0].theta, 7.0) << empty;
  }
  const ModelConfig theta =
      rope_config_of(parse_with(R"("rope_scaling":{"rope_theta":500000.0},)"));
  EXPECT_EQ(rope_type(theta.ropes[0].scaling), "default");
  EXPECT_EQ(theta.ropes[0].theta, 500000.0);
}

}  // namespace
}  // namespace neuronmm::io
