// Tests tokenizer.json files that must be refused. Each message must name the place and the thing
// that is wrong.

#include <chrono>
#include <functional>

#include <gtest/gtest.h>

#include "small_tokenizer.h"

namespace neuronmm::text {
namespace {

using nlohmann::json;

std::string error_of_text(const std::string& text) {
  const auto tokenizer = Tokenizer::parse(text, "FILE");
  return tokenizer.ok() ? "accepted" : tokenizer.error().message;
}

std::string error_after(const std::function<void(json&)>& change) {
  json root = small_tokenizer({{"a", "b"}, {"ab", "c"}});
  root["added_tokens"] = json::array({added_token("<bos>", 258)});
  EXPECT_EQ(error_of_text(root.dump()), "accepted");
  change(root);
  return error_of_text(root.dump());
}

// The message must begin with the file and contain `place` and `thing`.
void expect_refused(const std::function<void(json&)>& change, const std::string& place,
                    const std::string& thing) {
  const std::string error = error_after(change);
  EXPECT_TRUE(error.starts_with("FILE: ")) << error;
  EXPECT_NE(error.find(place), std::string::npos) << error << " lacks " << place;
  EXPECT_NE(error.find(thing), std::string::npos) << error << " lacks " << thing;
}

TEST(TokenizerJson, RefusesTextThatIsNoJsonObject) {
  for (const char* text : {"", "{", "[]", "nul", "{}", "\xFF", "{\"a\": 1, \"a\": 2}"}) {
    EXPECT_TRUE(error_of_text(text).starts_with("FILE: ")) << text << ": " << error_of_text(text);
  }
  EXPECT_TRUE(error_of_text(std::string(1'000'000, '[')).starts_with("FILE: "));
}

TEST(TokenizerJson, RefusesOtherModels) {
  for (const char* type : {"WordPiece", "Unigram", "WordLevel"}) {
    expect_refused([&](json& root) { root["model"]["type"] = type; }, "model", type);
  }
  expect_refused([](json& root) { root.erase("model"); }, "model", "missing");
  expect_refused([](json& root) { root["model"] = 3; }, "model", "3");
  expect_refused([](json& root) { root["model"]["type"] = 3; }, "type", "3");
}

TEST(TokenizerJson, RefusesVariantsOfBpe) {
  expect_refused([](json& root) { root["model"]["dropout"] = 0.1; }, "dropout", "0.1");
  EXPECT_EQ(error_after([](json& root) { root["model"]["dropout"] = 0; }), "accepted");
  expect_refused([](json& root) { root["model"]["byte_fallback"] = "yes"; }, "byte_fallback",
                 "\"yes\"");
  // An unknown token that no text can reach may be missing.
  const auto with_unknown = [](json& root) { root["model"]["unk_token"] = "<unk>"; };
  EXPECT_EQ(error_after(with_unknown), "accepted");
  expect_refused(
      [&](json& root) {
        with_unknown(root);
        root["model"]["vocab"].erase("z");
      },
      "unk_token", "<unk>");
}

TEST(TokenizerJson, RefusesOtherVersions) {
  expect_refused([](json& root) { root["version"] = "2.0"; }, "version", "2.0");
}

TEST(TokenizerJson, RefusesBadVocabularies) {
  const auto vocab = [](json& root) -> json& { return root["model"]["vocab"]; };
  expect_refused([](json& root) { root["model"].erase("vocab"); }, "model", "vocab");
  expect_refused([&](json& root) { vocab(root) = json::array(); }, "vocab", "array");
  expect_refused([&](json& root) { vocab(root) = json::object(); }, "vocab", "none");
  expect_refused([&](json& root) { vocab(root)["a"] = "1"; }, "\"a\"", "\"1\"");
  expect_refused([&](json& root) { vocab(root)["a"] = 1.5; }, "\"a\"", "1.5");
  expect_refused([&](json& root) { vocab(root)["a"] = -1; }, "\"a\"", "-1");
  expect_refused([&](json& root) { vocab(root)["a"] = int64_t{1} << 40; }, "\"a\"",
                 std::to_string(int64_t{1} << 40));
  expect_refused([&](json& root) { vocab(root)["a"] = UINT64_MAX; }, "\"a\"", "ids are");
  expect_refused([&](json& root) { vocab(root)["a"] = 98; }, "id 98", "\"b\"");
  EXPECT_EQ(error_after([&](json& root) { vocab(root)[""] = 300; }), "accepted");
}

TEST(TokenizerJson, RefusesBadMerges) {
  const auto merges = [](json& root) -> json& { return root["model"]["merges"]; };
  expect_refused([](json& root) { root["model"].erase("merges"); }, "merges", "missing");
  expect_refused([&](json& root) { merges(root) = "a b"; }, "merges", "\"a b\"");
  expect_refused([&](json& root) { merges(root).push_back("ab"); }, "merges[2]", "\"ab\"");
  expect_refused([&](json& root) { merges(root).push_back("a b c"); }, "merges[2]", "\"a b c\"");
  expect_refused([&](json& root) { merges(root).push_back(json::array({"a"})); }, "merges[2]",
                 "no pair");
  expect_refused(
      [&](json& root) {
        merges(root).push_back(json::array({"a", 1}));
      },
      "merges[2]", "no pair");
  expect_refused([&](json& root) { merges(root).push_back("a \xE2\x82\xAC"); }, "merges[2]",
                 "\xE2\x82\xAC");
  expect_refused(
      [&](json& root) {
        merges(root).push_back(json::array({"b", "a"}));
      },
      "merges[2]", "\"ba\"");
}

TEST(TokenizerJson, AcceptsMergesAsPairs) {
  json root = small_tokenizer({{"a", "b"}});
  root["model"]["merges"] = json::array({json::array({"a", "b"})});
  EXPECT_EQ(parse_or_die(root).encode("ab").value(), std::vector<TokenId>{256});
}

TEST(TokenizerJson, RefusesBadAddedTokens) {
  const auto added = [](json& root) -> json& { return root["added_tokens"]; };
  expect_refused([&](json& root) { added(root) = 1; }, "added_tokens", "1");
  expect_refused([&](json& root) { added(root).push_back("<x>"); }, "added_tokens[1]", "<x>");
  expect_refused(
      [&](json& root) {
        added(root).push_back(json::object({{"id", 300}}));
      },
      "added_tokens[1]", "content");
  expect_refused(
      [&](json& root) {
        added(root).push_back(json::object({{"content", "x"}}));
      },
      "added_tokens[1]", "id");
  expect_refused([&](json& root) { added(root)[0]["special"] = 1; }, "special", "1");
  const auto push = [&](const char* content, int id) {
    return [=](json& root) { root["added_tokens"].push_back(added_token(content, id)); };
  };
  expect_refused(push("", 300), "added_tokens[1]", "empty");
  expect_refused(push("<x>", -1), "<x>", "-1");
  expect_refused(push("<x>", 1 << 30), "<x>", std::to_string(1 << 30));
  expect_refused(push("<x>", 258), "<x>", "<bos>");
  expect_refused(push("<x>", 97), "<x>", "97");
  // The tokenizers library numbers new tokens itself, whatever the file says.
  json counted = small_tokenizer();
  counted["added_tokens"] = {added_token("<x>", 300), added_token("<y>", 1000)};
  EXPECT_EQ(parse_or_die(counted).encode("<x><y>").value(), (std::vector<TokenId>{256, 257}));
  expect_refused(push("<bos>", 300), "<bos>", "300");
}

TEST(TokenizerJson, RefusesUnknownSteps) {
  const std::pair<const char*, const char*> steps[] = {
      {"normalizer", "Precompiled"},    {"normalizer", "Nmt"},
      {"normalizer", "BertNormalizer"}, {"pre_tokenizer", "UnicodeScripts"},
      {"pre_tokenizer", "Something"},   {"post_processor", "Something"},
      {"decoder", "WordPiece"},         {"decoder", "CTC"}};
  const std::pair<const char*, const char*> lists[] = {{"normalizer", "normalizers"},
                                                       {"pre_tokenizer", "pretokenizers"},
                                                       {"post_processor", "processors"},
                                                       {"decoder", "decoders"}};
  for (const auto& step : steps) {
    const char *key = step.first, *type = step.second;
    expect_refused([&](json& root) { root[key] = {{"type", type}}; }, key, type);
  }
  for (const auto& sequence : lists) {
    const char *key = sequence.first, *list = sequence.second;
    expect_refused([&](json& root) { root[key] = "x"; }, key, "\"x\"");
    expect_refused([&](json& root) { root[key] = json::object(); }, key, "type");
    expect_refused([&](json& root) { root[key] = {{"type", 5}}; }, key, "5");
    expect_refused([&](json& root) { root[key] = {{"type", "Sequence"}}; }, key, list);
    expect_refused([&](json& root) { root[key] = {{"type", "Sequence"}, {list, 1}}; }, list, "1");
    expect_refused(
        [&](json& root) {
          root[key] = {{"type", "Sequence"}, {list, {1}}};
        },
        std::string(list) + "[0]", "1");
  }
}

// Covers every field that a step needs or whose value is meaningless.
TEST(TokenizerJson, RefusesBadSteps) {
  const auto step = [](const char* key, const json& value) {
    return [=](json& root) { root[key] = value; };
  };
  const auto replace = [](const json& pattern) {
    return json{{"type", "Replace"}, {"pattern", pattern}, {"content", "x"}};
  };
  for (const char* key : {"normalizer", "decoder"}) {
    EXPECT_EQ(error_after(step(key, replace({{"String", " "}}))), "accepted");
    expect_refused(step(key, replace({{"Regex", "(a"}})), key, "(a");
    expect_refused(step(key, replace({{"String", ""}})), key, "empty");
    expect_refused(step(key, {{"type", "Replace"}, {"pattern", {{"String", " "}}}}), key,
                   "content");
    expect_refused(step(key, {{"type", "Replace"}, {"content", ""}}), key, "pattern");
  }
  expect_refused(step("normalizer", {{"type", "Prepend"}}), "normalizer", "prepend");
  expect_refused(step("normalizer", {{"type", "Strip"}, {"strip_left", 1}}), "strip_left", "1");
  for (const char* key : {"pre_tokenizer", "decoder"}) {
    expect_refused(step(key, {{"type", "Metaspace"}}), key, "replacement");
    expect_refused(step(key, {{"type", "Metaspace"}, {"replacement", "ab"}}), "replacement", "ab");
    expect_refused(
        step(key, {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "last"}}),
        "prepend_scheme", "last");
  }
  expect_refused(step("pre_tokenizer", {{"type", "FixedLength"}, {"length", 0}}), "length", "0");
  expect_refused(step("pre_tokenizer", {{"type", "CharDelimiterSplit"}, {"delimiter", ""}}),
                 "delimiter", "\"\"");
  expect_refused(step("pre_tokenizer", {{"type", "Punctuation"}, {"behavior", "x"}}), "behavior",
                 "x");
  expect_refused(step("decoder", {{"type", "Strip"}, {"content", " "}, {"start", -1}}), "start",
                 "-1");
  expect_refused(step("decoder", {{"type", "Strip"}, {"start", 1}}), "decoder", "content");
  expect_refused(step("decoder", {{"type", "BPEDecoder"}, {"suffix", ""}}), "decoder", "empty");
  for (const char* type : {"RobertaProcessing", "BertProcessing"}) {
    const json good = {{"type", type}, {"cls", {"<bos>", 258}}, {"sep", {"a", 97}}};
    EXPECT_EQ(error_after(step("post_processor", good)), "accepted");
    json bad = good;
    bad["sep"] = {"a", 9999};
    expect_refused(step("post_processor", bad), "sep", "array of 2");
  }
  json many = json::array();
  for (int i = 0; i < 100; ++i) many.push_back({{"type", "NFC"}});
  expect_refused(step("normalizer", {{"type", "Sequence"}, {"normalizers", many}}), "normalizer",
                 "more than 64");
}

TEST(TokenizerJson, RefusesBadPreTokenizers) {
  const json byte_level = {{"type", "ByteLevel"}};
  const auto sequence = [](const json& steps) {
    return [=](json& root) {
      root["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
    };
  };
  const auto split = [&](const json& pattern, const char* behavior) {
    return sequence(
        {{{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}}, byte_level});
  };
  EXPECT_EQ(error_after(split({{"Regex", "a"}}, "Isolated")), "accepted");
  EXPECT_EQ(error_after(split({{"String", "a"}}, "Removed")), "accepted");
  expect_refused(split({{"Regex", "a"}}, "x"), "behavior", "x");
  expect_refused(split({{"Regex", "(a"}}, "Isolated"), "pretokenizers[0]", "(a");
  expect_refused(split({{"Regex", "\\h"}}, "Isolated"), "pretokenizers[0]", "\\h");
  expect_refused(split({{"Regex", ""}}, "Isolated"), "pretokenizers[0]", "empty");
  expect_refused(split({{"Regex", 5}}, "Isolated"), "Regex", "5");
  expect_refused(split("a", "Isolated"), "pattern", "\"a\"");
  expect_refused(sequence({{{"type", "Split"}}, byte_level}), "pretokenizers[0]", "pattern");
  expect_refused(
      sequence(json::array({byte_level, byte_level, byte_level, byte_level, byte_level})),
      "pre_tokenizer", "more than 4 ByteLevel");
  json many = json::array();
  for (int i = 0; i < 100; ++i) many.push_back({{"type", "Digits"}});
  expect_refused(sequence(many), "pre_tokenizer", "more than 16");
}

TEST(TokenizerJson, RefusesBadTemplates) {
  const json sequence = {{"Sequence", {{"id", "A"}}}};
  const json special = {{"SpecialToken", {{"id", "<bos>"}}}};
  const auto with = [](const json& single, const json& ids) {
    return [=](json& root) {
      root["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", single},
                                {"special_tokens", {{"<bos>", {{"ids", ids}}}}}};
    };
  };
  EXPECT_EQ(error_after(with({special, sequence, special}, {258})), "accepted");
  expect_refused(with("A", {258}), "single", "\"A\"");
  expect_refused(with(json::array({special}), {258}), "single", "array of 1");
  expect_refused(with({sequence, sequence}, {258}), "single", "array of 2");
  expect_refused(with({sequence, {{"Sequence", {{"id", "B"}}}}}, {258}), "single", "array of 2");
  expect_refused(with({sequence, 5}, {258}), "single", "array of 2");
  expect_refused(with({sequence, {{"Other", {{"id", "A"}}}}}, {258}), "single", "array of 2");
  expect_refused(with({special, sequence}, {999}), "special_tokens", "<bos>");
  expect_refused(with({special, sequence}, {-1}), "special_tokens", "<bos>");
  expect_refused(with({special, sequence}, {"x"}), "special_tokens", "<bos>");
  expect_refused(with({special, sequence}, 258), "special_tokens", "<bos>");
  expect_refused(with({{{"SpecialToken", {{"id", "<x>"}}}}, sequence}, {258}), "special_tokens",
                 "<x>");
}

// Sequences nest as deep as the JSON reader allows, which is not far.
TEST(TokenizerJson, DeepSequencesAreReadOrRefused) {
  const auto nest = [](int depth) {
    return [=](json& root) {
      json step = {{"type", "NFC"}};
      for (int i = 0; i < depth; ++i) {
        step = {{"type", "Sequence"}, {"normalizers", json::array({std::move(step)})}};
      }
      root["normalizer"] = std::move(step);
    };
  };
  EXPECT_EQ(error_after(nest(10)), "accepted");
  expect_refused(nest(1000), "FILE", "nested");
}

// Every prefix of a valid file must be refused quickly.
TEST(TokenizerJson, RefusesEveryPrefix) {
  const std::string text = small_tokenizer({{"a", "b"}}).dump();
  for (size_t n = 0; n < text.size(); n += 7) {
    EXPECT_TRUE(error_of_text(text.substr(0, n)).starts_with("FILE: ")) << n;
  }
}

}  // namespace
}  // namespace neuronmm::text
