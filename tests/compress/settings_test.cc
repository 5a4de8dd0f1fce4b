// Tests of what compress and quantize make of settings that a caller left out.

#include "compress/settings.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "compress/compress_test.h"
#include "compress/quantize_settings.h"

namespace neuronmm::compress {
namespace {

using Json = nlohmann::ordered_json;

CompressGiven given_text() {
  CompressGiven given;
  given.model = "model";
  given.out = "out";
  given.ratio = 0.2;
  given.calibration = {"texts/stories.txt"};
  return given;
}

Json complete(const CompressGiven& given) {
  const auto settings = compress_settings(given, OptionNames::kFlags);
  if (!settings.ok()) return settings.error().message;
  return settings_json(*settings);
}

std::string refusal(const CompressGiven& given, OptionNames names = OptionNames::kFlags) {
  const auto settings = compress_settings(given, names);
  return settings.ok() ? "" : settings.error().message;
}

Json with(Json json, const Json& changes) {
  json.update(changes);
  return json;
}

const Json kDefaults = {{"form", "auto"},
                        {"method", "two-sided"},
                        {"allocate", "measured"},
                        {"ratio", 0.2},
                        {"block", 32},
                        {"pad", false},
                        {"bits", nullptr},
                        {"group", nullptr},
                        {"lm_head_bits", nullptr},
                        {"embedding_bits", nullptr},
                        {"calibration", {"stories.txt"}},
                        {"calibration_tokens", 32768},
                        {"self_generated", nullptr},
                        {"seed", nullptr},
                        {"statistics", false},
                        {"reconstruct", "auto"}};

TEST(CompressSettings, DefaultsFollowFromWhatIsGiven) {
  EXPECT_EQ(complete(given_text()), kDefaults);
  CompressGiven given = given_text();
  given.paper = true;
  const Json paper = with(kDefaults, {{"form", "uv"},
                                      {"method", "whitened"},
                                      {"allocate", "uniform"},
                                      {"block", 128},
                                      {"calibration_tokens", 131072},
                                      {"reconstruct", "off"}});
  EXPECT_EQ(complete(given), paper);
  given.block = 64;
  given.allocate = Allocate::kMeasured;
  EXPECT_EQ(complete(given), with(paper, {{"block", 64}, {"allocate", "measured"}}));
  given.statistics = "absent";
  EXPECT_EQ(complete(given), with(paper, {{"block", 64},
                                          {"allocate", "measured"},
                                          {"calibration_tokens", 32768},
                                          {"statistics", true}}));
  given = given_text();
  given.form = Form::kUv;
  EXPECT_EQ(complete(given), with(paper, {{"block", 32}, {"reconstruct", "auto"}}));
  given.allocate = Allocate::kPredicted;  // narrows whole MLPs
  EXPECT_EQ(complete(given), with(paper, {{"block", 32},
                                          {"allocate", "predicted"},
                                          {"calibration_tokens", 32768},
                                          {"reconstruct", "auto"}}));
}

TEST(CompressSettings, WithoutATextSizesAreThosePredicted) {
  CompressGiven given = given_text();
  given.calibration.clear();
  given.statistics = "absent";
  const Json expected = with(kDefaults, {{"allocate", "predicted"},
                                         {"calibration", Json::array()},
                                         {"calibration_tokens", nullptr},
                                         {"statistics", true}});
  EXPECT_EQ(complete(given), expected);
  given.text_comes_later = true;  // statistics alone suffice
  EXPECT_EQ(complete(given), expected);
  given.statistics.clear();
  EXPECT_EQ(complete(given), with(kDefaults, {{"calibration", Json::array()}}));
  given.text_comes_later = false;
  given.method = Method::kSvd;
  EXPECT_EQ(complete(given), with(kDefaults, {{"form", "uv"},
                                              {"method", "svd"},
                                              {"allocate", "uniform"},
                                              {"calibration", Json::array()},
                                              {"calibration_tokens", nullptr},
                                              {"reconstruct", "off"}}));
}

TEST(CompressSettings, LayersLearnFromAtMostTheCalibrationText) {
  CompressGiven given = given_text();
  given.reconstruct = parse_reconstruct("off").value();
  EXPECT_EQ(complete(given), with(kDefaults, {{"reconstruct", "off"}}));
  given.reconstruct = parse_reconstruct("100000").value();
  const Json more = with(kDefaults, {{"calibration_tokens", 100000}, {"reconstruct", "100000"}});
  EXPECT_EQ(complete(given), more);
  given.calibration_tokens = 50000;
  EXPECT_EQ(complete(given), with(more, {{"calibration_tokens", 50000}}));
  given.calibration_tokens.reset();
  given.calibration.clear();
  given.statistics = "statistics";
  EXPECT_NE(refusal(given).find("--reconstruct 100000 needs --calibration or --self-generated"),
            std::string::npos)
      << refusal(given);
}

TEST(CompressSettings, ANumberOfTokensNeedsAText) {
  CompressGiven given = given_text();
  given.calibration_tokens = 500;
  EXPECT_EQ(refusal(given), "");
  given.calibration.clear();
  given.statistics = "statistics";
  EXPECT_EQ(refusal(given),
            "--calibration-tokens needs --calibration, the text that has the tokens");
  EXPECT_EQ(refusal(given, OptionNames::kKeywords),
            "calibration_tokens needs calibration, the text that has the tokens");
  given.text_comes_later = true;
  EXPECT_EQ(refusal(given), "");
}

TEST(CompressSettings, TextThatTheModelWritesHasASeed) {
  CompressGiven given = given_text();
  given.calibration.clear();
  given.self_generated = 500;
  const Json expected = with(kDefaults, {{"calibration", Json::array()},
                                         {"calibration_tokens", nullptr},
                                         {"self_generated", 500},
                                         {"seed", 0}});
  EXPECT_EQ(complete(given), expected);
  given.seed = ~uint64_t{0};
  EXPECT_EQ(complete(given), with(expected, {{"seed", ~uint64_t{0}}}));
}

TEST(CompressSettings, BitsHaveGroupsWhereTheyAreFour) {
  CompressGiven given = given_text();
  given.bits = 8;
  EXPECT_EQ(complete(given), with(kDefaults, {{"bits", 8}, {"lm_head_bits", 8}}));
  given.bits = 4;
  EXPECT_EQ(complete(given), with(kDefaults, {{"bits", 4}, {"group", 16}, {"lm_head_bits", 6}}));
  given.bits = 6;
  given.lm_head_bits = 4;
  given.group = 32;
  EXPECT_EQ(complete(given), with(kDefaults, {{"bits", 6}, {"group", 32}, {"lm_head_bits", 4}}));
}

// Each in the words of whoever gave the settings.
TEST(CompressSettings, RefusalsNameTheOptionsOfTheCaller) {
  CompressGiven given = given_text();
  given.ratio.reset();
  EXPECT_EQ(refusal(given), "--ratio is missing: the share of parameters to remove");
  EXPECT_EQ(refusal(given, OptionNames::kKeywords),
            "ratio is missing: the share of parameters to remove");
  given.ratio = 1.0;
  EXPECT_EQ(refusal(given), "--ratio: expected a number between 0 and 1, found 1");
  given = given_text();
  given.self_generated = 500;
  EXPECT_EQ(refusal(given), "--self-generated and --calibration exclude each other");
  EXPECT_EQ(refusal(given, OptionNames::kKeywords),
            "self_generated and calibration exclude each other");
  given = given_text();
  given.paper = true;
  given.form = Form::kUv;
  EXPECT_EQ(refusal(given), "--paper and --form exclude each other");
  given = given_text();
  given.calibration.clear();
  EXPECT_EQ(refusal(given),
            "--form auto needs --calibration, --self-generated or --statistics; --form uv with "
            "--method svd needs none of them");
  for (const char* const statistics : {"", "statistics"}) {  // which do not count the tokens
    given.statistics = statistics;
    given.calibration_tokens = 1000;
    given.text_comes_later = false;
    EXPECT_EQ(refusal(given),
              "--calibration-tokens needs --calibration, the text that has the tokens");
    EXPECT_EQ(refusal(given, OptionNames::kKeywords),
              "calibration_tokens needs calibration, the text that has the tokens");
    given.text_comes_later = true;
    EXPECT_EQ(refusal(given), "");
  }
  given = given_text();
  given.bits = 8;
  given.group = 16;
  EXPECT_EQ(refusal(given, OptionNames::kKeywords),
            "group: only weights of 4 bits have groups, found bits 8");
}

// Returns what a folder of unfinished work or a record says of its settings.
TEST(CompressSettings, AreReadBackAsTheyWereWritten) {
  CompressGiven given = given_text();
  given.bits = 4;
  given.pad = true;
  given.form = Form::kNeurons;
  given.statistics = "absent";
  CompressGiven writing = given_text();
  writing.calibration.clear();
  writing.self_generated = 500;
  writing.seed = ~uint64_t{0};
  CompressGiven paper = given_text();
  paper.paper = true;
  for (const CompressGiven& each : {given_text(), given, writing, paper}) {
    const Json settings = complete(each);
    SCOPED_TRACE(settings.dump());
    auto read = given_of(settings, each.statistics);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(complete(*read), settings);
  }
  EXPECT_FALSE(given_of("form", "").ok());
  EXPECT_FALSE(given_of({{"form", "round"}}, "").ok());
  EXPECT_FALSE(given_of({{"bits", "four"}}, "").ok());
  EXPECT_FALSE(given_of({{"calibration", {1}}}, "").ok());
}

// A setting that a version did not have yet has its default.
TEST(CompressSettings, AreTheSameWhereWhatIsMissingHasItsDefault) {
  const auto settings = compress_settings(given_text(), OptionNames::kFlags);
  ASSERT_TRUE(settings.ok());
  const nlohmann::json whole = settings_json(*settings);
  EXPECT_TRUE(same_settings(whole, *settings));
  nlohmann::json without_block = whole;
  without_block.erase("block");
  EXPECT_TRUE(same_settings(without_block, *settings));
  for (const auto& [key, value] : std::vector<std::pair<const char*, nlohmann::json>>{
           {"block", 64}, {"form", "mixed"}, {"bits", 8}, {"calibration", {"other.txt"}}}) {
    nlohmann::json other = whole;
    other[key] = value;
    EXPECT_FALSE(same_settings(other, *settings)) << key;
  }
}

TEST(QuantizeSettings, DefaultsFollowFromWhatIsGiven) {
  const auto complete_of = [](const QuantizeGiven& given) -> Json {
    const auto settings = quantize_settings(given, OptionNames::kFlags);
    if (!settings.ok()) return settings.error().message;
    return settings_json(*settings);
  };
  const Json defaults = {{"bits", 8},
                         {"group", nullptr},
                         {"lm_head_bits", 8},
                         {"embedding_bits", nullptr},
                         {"rounding", "nearest"},
                         {"smoothing", false},
                         {"calibration", Json::array()},
                         {"calibration_tokens", nullptr},
                         {"statistics", false},
                         {"reconstruct", "off"}};
  QuantizeGiven given;
  EXPECT_EQ(complete_of(given), defaults);
  given.bits = 4;
  const Json four = with(defaults, {{"bits", 4}, {"group", 16}, {"lm_head_bits", 6}});
  EXPECT_EQ(complete_of(given), four);
  given.calibration = {"texts/stories.txt"};
  const Json by_text = with(four, {{"rounding", "gptq"},
                                   {"smoothing", true},
                                   {"calibration", {"stories.txt"}},
                                   {"calibration_tokens", 32768},
                                   {"reconstruct", "auto"}});
  EXPECT_EQ(complete_of(given), by_text);
  given.rounding = Rounding::kNearest;
  EXPECT_EQ(complete_of(given), with(by_text, {{"rounding", "nearest"}, {"reconstruct", "off"}}));
  given.smooth = false;
  EXPECT_EQ(complete_of(given),
            "--calibration has no use beside --rounding nearest without --smoothing");
  given = {};
  given.rounding = Rounding::kGptq;
  EXPECT_EQ(complete_of(given), "--rounding gptq needs --calibration or --statistics");
  given = {};
  given.calibration_tokens = 1000;
  for (const char* const statistics : {"", "statistics"}) {
    given.statistics = statistics;
    EXPECT_EQ(complete_of(given),
              "--calibration-tokens needs --calibration, the text that has the tokens");
  }
}

// Layers learn their codes where these are few, and where there is a text.
TEST(QuantizeSettings, LayersLearnFromATextInFewBits) {
  QuantizeGiven given;
  given.calibration = {"text.txt"};
  const auto reconstruct_of = [&](int bits, const char* asked) -> std::string {
    given.bits = bits;
    given.reconstruct = parse_reconstruct(asked).value();
    const auto settings = quantize_settings(given, OptionNames::kFlags);
    if (!settings.ok()) return settings.error().message;
    return reconstruct_text(settings->reconstruct);
  };
  for (const int bits : {6, 4}) {
    for (const char* const asked : {"off", "100000"}) {
      EXPECT_EQ(reconstruct_of(bits, asked), asked);
    }
    EXPECT_EQ(quantize_settings(given, OptionNames::kFlags)->calibration->max_tokens, 100000);
  }
  EXPECT_EQ(reconstruct_of(4, "auto"), "auto");
  EXPECT_EQ(reconstruct_of(6, "auto"), "off");
  EXPECT_EQ(reconstruct_of(8, "auto"), "off");
  EXPECT_EQ(reconstruct_of(8, "1000"),
            "--reconstruct 1000 is for --bits 6 and 4, found 8; leave it out, or ask for fewer "
            "bits");
  given.rounding = Rounding::kNearest;
  EXPECT_EQ(reconstruct_of(4, "auto"), "off");
  EXPECT_NE(reconstruct_of(4, "1000").find("needs --rounding gptq"), std::string::npos);
  given = {};
  EXPECT_EQ(reconstruct_of(4, "1000"),
            "--reconstruct 1000 needs --calibration, from which layers learn");
  given.statistics = "statistics";
  EXPECT_EQ(reconstruct_of(4, "auto"), "off");
  EXPECT_EQ(reconstruct_of(4, "1000"),
            "--reconstruct 1000 needs --calibration, from which layers learn; --statistics are "
            "not enough");
}

TEST_F(CompressTest, TheRecordHoldsAllSettings) {
  const CompressRequest asked = request("out");
  run_well(asked);
  const auto config = nlohmann::json::parse(bytes("out", "config.json"));
  EXPECT_EQ(config["neuronmm_compression"]["settings"], nlohmann::json(settings_json(asked)));
  const auto read = io::ModelConfig::load(path("out") / "config.json");
  ASSERT_TRUE(read.ok() && read->compression);
  EXPECT_TRUE(same_settings(nlohmann::json::parse(read->compression->settings), asked));
}

}  // namespace
}  // namespace neuronmm::compress
