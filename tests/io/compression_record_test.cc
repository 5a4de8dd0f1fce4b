// Tests reading and writing the record of a compression in config.json.

#include "io/compression_record.h"

#include "config_text.h"
#include "io/model_config.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

constexpr const char* kRecord =
    R"({"method":"whitened","ratio":0.2,"block":16,"align":"nearest",
        "ranks":[{"gate":16,"up":32,"down":0},{"gate":0,"up":0,"down":48}]})";

// Returns the small config with a record to which `changes` are applied.
Result<ModelConfig> compressed_config(std::string_view changes) {
  nlohmann::json record = nlohmann::json::parse(kRecord);
  record.merge_patch(nlohmann::json::parse(changes));
  nlohmann::json config = small_config();
  config["neuronmm_compression"] = record;
  return ModelConfig::parse(config.dump(), "config.json");
}

TEST(CompressionRecord, AllFieldsAreRead) {
  const auto config = compressed_config("{}");
  ASSERT_TRUE(config.ok()) << config.error().message;
  ASSERT_TRUE(config->compression.has_value());
  const CompressionRecord& record = *config->compression;
  EXPECT_EQ(record.method, "whitened");
  EXPECT_EQ(record.ratio, 0.2);
  EXPECT_EQ(record.block, 16);
  EXPECT_EQ(record.align, "nearest");
  EXPECT_EQ(compressed_config(R"({"align":"ceil"})")->compression->align, "ceil");
  EXPECT_EQ(compressed_config(R"({"align":null})")->compression->align, "");
  // The value for folders that are older than the field.
  EXPECT_EQ(record.allocate, "uniform");
  EXPECT_EQ(compressed_config(R"({"allocate":"sensitivity"})")->compression->allocate,
            "sensitivity");
  ASSERT_EQ(record.ranks.size(), 2u);
  EXPECT_EQ(record.ranks[0].up, 32);
  EXPECT_EQ(record.ranks[1].down, 48);
}

TEST(CompressionRecord, WrongFieldsAreNamed) {
  const std::string_view record = "\"neuronmm_compression\"";
  for (const std::string key : {"method", "ratio", "block", "ranks"}) {
    EXPECT_TRUE(fails_with(compressed_config("{\"" + key + "\":null}"),
                           {"config.json", record, "\"" + key + "\"", "missing"}));
  }
  EXPECT_TRUE(fails_with(compressed_config(R"({"method":1})"), {record, "method", "a string"}));
  EXPECT_TRUE(
      fails_with(compressed_config(R"({"ratio":1.0})"), {record, "ratio", "[0, 1)", "1.0"}));
  EXPECT_TRUE(fails_with(compressed_config(R"({"block":0})"), {record, "block", "found 0"}));
  EXPECT_TRUE(
      fails_with(compressed_config(R"({"align":"up"})"), {record, "align", "nearest", "\"up\""}));
  EXPECT_TRUE(fails_with(compressed_config(R"({"allocate":"x"})"),
                         {record, "allocate", "sensitivity", "x"}));
  EXPECT_TRUE(fails_with(compressed_config(R"({"ranks":[]})"),
                         {record, "ranks", "2 layers", "array of 0"}));
  EXPECT_TRUE(fails_with(compressed_config(R"({"ranks":[1,2]})"),
                         {"\"ranks\"[0]", "an object", "found 1"}));
  EXPECT_TRUE(
      fails_with(compressed_config(R"({"ranks":[{"gate":1,"up":1,"down":1},{"gate":1,"up":1}]})"),
                 {"\"ranks\"[1]", "\"down\"", "missing"}));
  EXPECT_TRUE(fails_with(
      compressed_config(R"({"ranks":[{"gate":65,"up":1,"down":1},{"gate":1,"up":1,"down":1}]})"),
      {"\"ranks\"[0]", "\"gate\"", "64", "found 65"}));
  EXPECT_TRUE(fails_with(ModelConfig::parse(config_with(R"({"neuronmm_compression":4})"), "c"),
                         {record, "an object", "4"}));
}

TEST(CompressionRecord, EveryFormIsReadWithItsSizes) {
  const auto old = compressed_config("{}");
  // The value for folders that are older than the field.
  EXPECT_EQ(old->compression->form, "uv");
  EXPECT_FALSE(old->compression->pivoted());
  const auto config = compressed_config(
      R"({"form":"mixed","ranks":[{"gate":0,"up":0,"down":48,"input":33,"neurons":90},
                                  {"gate":5,"up":6,"down":7}]})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->compression->form, "mixed");
  EXPECT_TRUE(config->compression->pivoted());
  EXPECT_EQ(config->compression->ranks[0], (MlpShape{0, 0, 48, 33, 90}));
  EXPECT_EQ(config->compression->ranks[1], (MlpShape{5, 6, 7, 0, 0}));
  for (const char* form : {"uv", "pivoted", "narrow", "neurons", "mixed"}) {
    EXPECT_EQ(compressed_config(fmt::format(R"({{"form":"{}"}})", form))->compression->form, form);
  }
}

TEST(CompressionRecord, UnknownFormsAndWrongSizesAreRefused) {
  EXPECT_TRUE(fails_with(compressed_config(R"({"form":"auto"})"),
                         {"neuronmm_compression", "form", "mixed", "auto"}));
  EXPECT_TRUE(fails_with(compressed_config(R"({"form":3})"), {"form", "a string", "3"}));
  const auto with_layer = [](const std::string& form, const std::string& sizes) {
    return compressed_config(R"({"form":")" + form + R"(","ranks":[{"gate":0,"up":0,"down":0},)" +
                             sizes + "]}");
  };
  EXPECT_TRUE(fails_with(with_layer("narrow", R"({"gate":0,"up":0,"down":0,"input":65})"),
                         {"\"ranks\"[1]", "\"input\"", "64", "found 65"}));
  EXPECT_TRUE(fails_with(with_layer("neurons", R"({"gate":0,"up":0,"down":0,"neurons":-1})"),
                         {"\"ranks\"[1]", "\"neurons\"", "found -1"}));
  for (const char* size : {"input", "neurons"}) {
    EXPECT_TRUE(
        fails_with(with_layer("uv", fmt::format(R"({{"gate":0,"up":0,"down":0,"{}":5}})", size)),
                   {"\"form\"", "uv", size}));
  }
  EXPECT_TRUE(fails_with(with_layer("mixed", R"({"gate":3,"up":0,"down":0,"input":5})"),
                         {"\"ranks\"", "input", "gate", "both"}));
}

TEST(CompressionRecord, CalibrationTextsAreReadIfPresent) {
  // An older folder has no such list.
  EXPECT_TRUE(compressed_config("{}")->compression->calibration.empty());
  const auto config = compressed_config(
      R"({"calibration":[{"name":"a.txt","xxh3":"0123456789abcdef","bytes":7,"tokens":3},
                         {"name":"b","xxh3":"x","bytes":0,"tokens":0,"later":1}]})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  const auto& texts = config->compression->calibration;
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0].name, "a.txt");
  EXPECT_EQ(texts[0].bytes, 7);
  EXPECT_EQ(texts[0].tokens, 3);
  EXPECT_TRUE(calibrated_on(*config, "0123456789abcdef"));
  EXPECT_FALSE(calibrated_on(*config, "0123456789abcdee"));
  EXPECT_FALSE(calibrated_on(ModelConfig(), ""));
  EXPECT_TRUE(fails_with(compressed_config(R"({"calibration":{}})"), {"calibration", "a list"}));
  EXPECT_TRUE(fails_with(compressed_config(R"({"calibration":[1]})"),
                         {"\"calibration\"[0]", "an object", "found 1"}));
  EXPECT_TRUE(fails_with(
      compressed_config(R"({"calibration":[{"name":"a","xxh3":"x","bytes":-1,"tokens":0}]})"),
      {"\"calibration\"[0]", "\"bytes\"", "found -1"}));
  EXPECT_TRUE(
      fails_with(compressed_config(R"({"calibration":[{"name":"a","bytes":1,"tokens":0}]})"),
                 {"\"calibration\"[0]", "\"xxh3\"", "missing"}));
}

const CompressionRecord kWritten = {"svd", 0.05, 128, "floor", {{1, 2, 3}, {0, 0, 0}}};

TEST(CompressionRecord, WritingKeepsEveryKeyInItsOrder) {
  const std::string original = R"({"zebra":1,"architectures":["LlamaForCausalLM"],"apple":[1,2],
      "rms_norm_eps":1e-05,"nested":{"b":null,"a":"ü"}})";
  const auto text = with_compression_record(original, kWritten, "config.json");
  ASSERT_TRUE(text.ok()) << text.error().message;
  auto before = nlohmann::ordered_json::parse(original);
  auto after = nlohmann::ordered_json::parse(*text);
  ASSERT_TRUE(after.contains("neuronmm_compression"));
  EXPECT_EQ(after.back()["ranks"][0]["down"], 3);
  after.erase("neuronmm_compression");
  EXPECT_EQ(after.dump(), before.dump());
  EXPECT_NE(text->find("1e-05"), std::string::npos);
}

TEST(CompressionRecord, WhatIsWrittenIsReadBackAndReplaced) {
  const auto first = with_compression_record(config_with("{}"), kWritten, "config.json");
  ASSERT_TRUE(first.ok());
  CompressionRecord other = kWritten;
  other.method = "whitened";
  other.allocate = "predicted";
  other.form = "mixed";
  other.ranks = {{0, 0, 3, 7, 0}, {4, 5, 0, 0, 60}};
  other.calibration = {{"not \xff UTF-8 \"q\"", "0123456789abcdef", 12, 5}};
  const auto second = with_compression_record(*first, other, "config.json");
  ASSERT_TRUE(second.ok());
  const auto config = ModelConfig::parse(*second, "config.json");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->compression->method, "whitened");
  EXPECT_EQ(config->compression->allocate, "predicted");
  EXPECT_EQ(config->compression->form, "mixed");
  EXPECT_EQ(config->compression->ranks, other.ranks);
  ASSERT_EQ(config->compression->calibration.size(), 1u);
  EXPECT_EQ(config->compression->calibration[0].name, "not \uFFFD UTF-8 \"q\"");
  EXPECT_EQ(config->compression->calibration[0].xxh3, "0123456789abcdef");
  EXPECT_EQ(config->compression->calibration[0].bytes, 12);
  EXPECT_EQ(config->compression->calibration[0].tokens, 5);
  EXPECT_EQ(config->compression->ratio, 0.05);
  EXPECT_EQ(config->compression->align, "floor");
  EXPECT_EQ(config->compression->ranks[0].down, 3);
}

// A record without a version is one of version 1.
TEST(CompressionRecord, TheVersionIsWrittenAndLaterOnesAreRefused) {
  EXPECT_TRUE(compressed_config(R"({"format_version":1})").ok());
  EXPECT_TRUE(fails_with(compressed_config(R"({"format_version":2})"),
                         {"\"neuronmm_compression\"", "\"format_version\"", "newer", "2"}));
  const auto record = compressed_config("{}")->compression;
  const auto written = with_compression_record(small_config().dump(), *record, "config.json");
  ASSERT_TRUE(written.ok()) << written.error().message;
  EXPECT_EQ(nlohmann::json::parse(*written)["neuronmm_compression"]["format_version"], 1);
}

TEST(CompressionRecord, WritingNeedsAJsonObject) {
  EXPECT_TRUE(fails_with(with_compression_record("[]", kWritten, "c"), {"c: expected a JSON"}));
  EXPECT_TRUE(fails_with(with_compression_record("{", kWritten, "c"), {"c: malformed"}));
}

// Returns the config of a mixture of 3 experts whose record has this list under this key.
Result<ModelConfig> mixture_config(std::string_view list, const char* key = "experts") {
  nlohmann::json config = small_config();
  config.merge_patch(nlohmann::json::parse(
      R"({"architectures":["MixtralForCausalLM"],"model_type":"mixtral","num_local_experts":3,
          "num_experts_per_tok":2})"));
  config["neuronmm_compression"] = nlohmann::json::parse(kRecord);
  config["neuronmm_compression"]["form"] = "mixed";
  config["neuronmm_compression"][key] = nlohmann::json::parse(list);
  return ModelConfig::parse(config.dump(), "config.json");
}

TEST(CompressionRecord, ExpertsHaveNeuronsOfTheirOwn) {
  const auto config = mixture_config("[[8,16,24],[1,2,3]]");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->experts->width_of(0, 2), 24);
  EXPECT_EQ(config->experts->width_of(1, 0), 1);
  EXPECT_EQ(config->compression->experts, config->experts->widths);
  const auto text = with_compression_record("{}", *config->compression, "config.json");
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(nlohmann::json::parse(*text)["neuronmm_compression"]["experts"],
            nlohmann::json::parse("[[8,16,24],[1,2,3]]"));
}

TEST(CompressionRecord, WrongNumbersOfExpertsAreNamed) {
  EXPECT_TRUE(fails_with(mixture_config("[[8,16,24]]"), {"\"experts\"", "2 layers"}));
  EXPECT_TRUE(fails_with(mixture_config("[[8,16,24],[1,2]]"),
                         {"\"experts\"[1]", "3 experts", "found 2 numbers"}));
  EXPECT_TRUE(fails_with(mixture_config("[[8,16,24],[1,2,0]]"), {"\"experts\"[1]", "found 0"}));
  EXPECT_TRUE(fails_with(mixture_config("[[8,16,24],[1,2,100000]]"), {"found 100000"}));
  EXPECT_TRUE(fails_with(mixture_config("[[8,16,24],[1,2,1.5]]"), {"found 1.5"}));
  EXPECT_TRUE(fails_with(mixture_config("[[8,16,24],4]"), {"\"experts\"[1]", "found 4"}));
  EXPECT_TRUE(fails_with(compressed_config(R"({"experts":[[1],[1]]})"), {"no layer has experts"}));
}

TEST(CompressionRecord, ExpertsOfALayerShareBases) {
  const char* const kList = R"([{"input":5,"output":0},{"input":1,"output":7}])";
  const auto config = mixture_config(kList, "bases");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->experts->bases_of(0), (ExpertBases{5, 0}));
  EXPECT_EQ(config->experts->bases_of(1), (ExpertBases{1, 7}));
  const auto text = with_compression_record("{}", *config->compression, "config.json");
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(nlohmann::json::parse(*text)["neuronmm_compression"]["bases"],
            nlohmann::json::parse(kList));
}

TEST(CompressionRecord, WrongBasesAreNamed) {
  const auto with_first = [](const std::string& first) {
    return mixture_config("[" + first + R"(,{"input":1,"output":1}])", "bases");
  };
  EXPECT_TRUE(fails_with(mixture_config("[{}]", "bases"), {"\"bases\"", "2 layers"}));
  EXPECT_TRUE(fails_with(with_first("[5,6]"), {"\"bases\"[0]", "expected an object"}));
  EXPECT_TRUE(fails_with(with_first(R"({"input":3})"), {"\"bases\"[0]", "\"output\""}));
  EXPECT_TRUE(fails_with(with_first(R"({"input":-1,"output":1})"), {"\"input\"", "-1"}));
  const int64_t hidden = mixture_config("[[1,1,1],[1,1,1]]")->hidden_size;
  EXPECT_TRUE(fails_with(with_first(R"({"output":1,"input":)" + std::to_string(hidden) + "}"),
                         {"\"input\"", std::to_string(hidden - 1)}));
  EXPECT_TRUE(fails_with(compressed_config(R"({"bases":[{},{}]})"), {"no layer has experts"}));
}

}  // namespace
}  // namespace neuronmm::io
