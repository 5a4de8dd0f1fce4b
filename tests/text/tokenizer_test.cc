// Tests all steps together, on small tokenizers.

#include "text/tokenizer/tokenizer.h"

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "small_tokenizer.h"

namespace neuronmm::text {
namespace {

using Ids = std::vector<TokenId>;
using nlohmann::json;

json llama3_split() {
  return {{"type", "Split"},
          {"pattern",
           {{"Regex", R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                      R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

// Makes a tokenizer with Llama-3's pipeline and a few merges.
json llama3_like() {
  json root = small_tokenizer({{"a", "b"}, {" ", "ab"}, {"1", "1"}});
  root["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", {llama3_split(), root["pre_tokenizer"]}}};
  root["added_tokens"] = {added_token("<bos>", 259), added_token("<end>", 260),
                          added_token("<tool>", 261, false)};
  root["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<bos>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"special_tokens", {{"<bos>", {{"id", "<bos>"}, {"ids", {259}}, {"tokens", {"<bos>"}}}}}}};
  return root;
}

std::string random_bytes(std::mt19937& random) {
  constexpr const char* kParts[] = {"<end>", "ab", " ", "\n", "11"};
  std::string bytes;
  for (uint32_t n = below(random, 30); n > 0; --n) {
    switch (below(random, 4)) {
      case 0:
        bytes.push_back(static_cast<char>(below(random, 256)));
        break;
      case 1:
        bytes += utf8_of(0x20 + below(random, 0x3000));
        break;
      case 2:
        bytes += kParts[below(random, std::size(kParts))];
        break;
      default:
        bytes.push_back(static_cast<char>(' ' + below(random, 95)));
    }
  }
  return bytes;
}

TEST(Tokenizer, AddsTheTokensOfThePostProcessor) {
  const Tokenizer tokenizer = parse_or_die(llama3_like());
  EXPECT_EQ(tokenizer.encode("ab ab").value(), (Ids{259, 256, 257}));
  EXPECT_EQ(tokenizer.encode("ab", {.add_special_tokens = false}).value(), Ids{256});
  EXPECT_EQ(tokenizer.encode("").value(), Ids{259});
  EXPECT_EQ(tokenizer.bos_id(), 259);
  EXPECT_EQ(tokenizer.eos_id(), std::nullopt);
}

TEST(Tokenizer, AddedTokensInTextAreParsedOnRequest) {
  const Tokenizer tokenizer = parse_or_die(llama3_like());
  EXPECT_EQ(tokenizer.encode("ab<end>ab<tool>").value(), (Ids{259, 256, 260, 256, 261}));
  const Ids as_text = tokenizer.encode("<end>", {.parse_added_tokens = false}).value();
  EXPECT_EQ(as_text, (Ids{259, '<', 'e', 'n', 'd', '>'}));
  EXPECT_EQ(tokenizer.decode(as_text), "<bos><end>");
  EXPECT_EQ(tokenizer.decode(as_text, true), "<end>");
}

TEST(Tokenizer, FindsTokensByTextAndId) {
  const Tokenizer tokenizer = parse_or_die(llama3_like());
  EXPECT_EQ(tokenizer.vocab_size(), 262);
  EXPECT_EQ(tokenizer.token_to_id("<end>"), 260);
  EXPECT_EQ(tokenizer.token_to_id("\xC4\xA0"
                                  "ab"),
            257);  // The token is "Ġab".
  EXPECT_EQ(tokenizer.token_to_id("nothing"), std::nullopt);
  EXPECT_TRUE(tokenizer.is_special(260));
  EXPECT_FALSE(tokenizer.is_special(261));
  EXPECT_FALSE(tokenizer.is_special('a'));
  EXPECT_FALSE(tokenizer.is_special(-1));
  EXPECT_FALSE(tokenizer.is_special(262));
  EXPECT_EQ(tokenizer.decode(Ids{-5, 'a', 99999, INT32_MAX, INT32_MIN, 'b'}), "ab");
}

TEST(Tokenizer, SplitsBeforeMerging) {
  const Tokenizer tokenizer = parse_or_die(llama3_like());
  const EncodeOptions plain = {.add_special_tokens = false};
  // Three digits are split off first, then one.
  EXPECT_EQ(tokenizer.encode("1111", plain).value(), (Ids{258, '1', '1'}));
  EXPECT_EQ(tokenizer.encode("ab  ab", plain).value(), (Ids{256, ' ', 257}));
}

TEST(Tokenizer, AnyBytesDecodeToThemselves) {
  const Tokenizer tokenizer = parse_or_die(llama3_like());
  for (uint32_t seed = 1; seed <= 3000; ++seed) {
    std::mt19937 random(seed);
    const std::string bytes = random_bytes(random);
    for (const bool parse : {false, true}) {
      const Ids ids =
          tokenizer.encode(bytes, {.add_special_tokens = false, .parse_added_tokens = parse})
              .value();
      ASSERT_EQ(tokenizer.decode(ids), bytes) << "seed " << seed;
    }
  }
}

TEST(Tokenizer, BytesThatAreNotUtf8AreEncodedOneByOne) {
  const Tokenizer tokenizer = parse_or_die(llama3_like());
  const EncodeOptions plain = {.add_special_tokens = false};
  EXPECT_EQ(tokenizer
                .encode("ab\xFF"
                        "ab\xE2\x82",
                        plain)
                .value(),
            (Ids{256, 0xFF, 256, 0xE2, 0x82}));
}

TEST(Tokenizer, NormalizesToNfcButNotInsideAddedTokens) {
  json root = llama3_like();
  root["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}};
  root["added_tokens"].push_back(added_token("<e\xCC\x81>", 262));
  const Tokenizer tokenizer = parse_or_die(root);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("e\xCC\x81", {.add_special_tokens = false}).value()),
            "\xC3\xA9");
  EXPECT_EQ(tokenizer.encode("<e\xCC\x81>").value(), (Ids{259, 262}));
}

TEST(Tokenizer, NormalizedAddedTokensAreFoundInNormalizedText) {
  json root = llama3_like();
  root["normalizer"] = {{"type", "NFC"}};
  json added = added_token("<\xC3\xA9>", 262);
  added["normalized"] = true;
  root["added_tokens"].push_back(added);
  EXPECT_EQ(parse_or_die(root).encode("a<e\xCC\x81>").value(), (Ids{259, 'a', 262}));
}

TEST(Tokenizer, LiteralRangesContainNoAddedTokens) {
  const Tokenizer tokenizer = parse_or_die(llama3_like());
  const auto encode = [&](std::string_view text, const std::vector<ByteRange>& literal) {
    return tokenizer.encode(text, {.add_special_tokens = false, .literal = literal}).value();
  };
  const Ids end_as_text = {'<', 'e', 'n', 'd', '>'};
  EXPECT_EQ(encode("ab<end>", {{0, 2}}), (Ids{256, 260}));
  EXPECT_EQ(encode("<end>", {{0, 5}}), end_as_text);
  EXPECT_EQ(encode("<end>", {{4, 5}}), end_as_text);
  EXPECT_EQ(encode("<end>", {{2, 2}}), Ids{260});  // The range is empty.
  EXPECT_EQ(encode("\xFF<end><end>", {{0, 6}}).back(), 260);
  EXPECT_EQ(encode("\xFF<end><end>", {{0, 6}}).size(), 1 + end_as_text.size() + 1);
}

// The range must be found again in a text that normalization made shorter or longer.
TEST(Tokenizer, LiteralRangesSurviveNormalization) {
  json root = llama3_like();
  root["normalizer"] = {{"type", "NFC"}};
  json added = added_token("<\xC3\xA9>", 262);
  added["normalized"] = true;
  root["added_tokens"].push_back(added);
  const Tokenizer tokenizer = parse_or_die(root);
  const std::string token = "<e\xCC\x81>", composed = "<\xC3\xA9>", longer = "\xE0\xA5\x98";
  for (const std::string& before : {std::string("x"), token, longer}) {
    for (const std::string& literal_text : {token, composed, longer + token + longer}) {
      const std::string text = before + literal_text + token;
      const std::vector<ByteRange> literal = {{before.size(), before.size() + literal_text.size()}};
      const Ids ids = tokenizer.encode(text, {.literal = literal}).value();
      EXPECT_EQ(std::count(ids.begin(), ids.end(), 262), before == token ? 2 : 1) << text;
      EXPECT_EQ(ids.back(), 262);
    }
  }
}

TEST(Tokenizer, AnExponentialRegularExpressionIsAnError) {
  json root = small_tokenizer();
  root["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "(a+)+$"}}}, {"behavior", "Isolated"}};
  root["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {root["pre_tokenizer"],
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  const Tokenizer tokenizer = parse_or_die(root);
  EXPECT_TRUE(tokenizer.encode("aaaa").ok());
  const auto ids = tokenizer.encode(std::string(60, 'a') + "c");
  ASSERT_FALSE(ids.ok());
  EXPECT_NE(ids.error().message.find("regular expressions need more than"), std::string::npos)
      << ids.error().message;
}

TEST(Tokenizer, ANormalizerThatMakesTooMuchTextIsAnError) {
  json root = small_tokenizer();
  json doubling = json::array();
  for (int i = 0; i < 60; ++i)
    doubling.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  root["normalizer"] = {{"type", "Sequence"}, {"normalizers", doubling}};
  const Tokenizer tokenizer = parse_or_die(root);
  EXPECT_TRUE(tokenizer.encode("b").ok());
  const auto ids = tokenizer.encode("a");
  ASSERT_FALSE(ids.ok());
  EXPECT_NE(ids.error().message.find("normalizer makes more than"), std::string::npos)
      << ids.error().message;
}

TEST(Tokenizer, APrefixSpaceBeginsEveryPart) {
  json root = small_tokenizer();
  root["pre_tokenizer"]["add_prefix_space"] = true;
  root["added_tokens"] = json::array({added_token("<end>", 256)});
  const Tokenizer tokenizer = parse_or_die(root);
  EXPECT_EQ(tokenizer.encode("x<end>y").value(), (Ids{' ', 'x', 256, ' ', 'y'}));
  EXPECT_EQ(tokenizer.encode("").value(), Ids{});
}

TEST(Tokenizer, DigitsAreSplitOff) {
  json root = small_tokenizer({{"1", "1"}, {"a", "1"}});
  for (const bool individual : {false, true}) {
    const json digits = {{"type", "Digits"}, {"individual_digits", individual}};
    root["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers", {digits, {{"type", "ByteLevel"}, {"add_prefix_space", false}}}}};
    const Ids expected = individual ? Ids{'a', '1', '1'} : Ids{'a', 256};
    EXPECT_EQ(parse_or_die(root).encode("a11").value(), expected);
  }
}

// A token outside the byte alphabet decodes to its own text and is found by it.
TEST(Tokenizer, TokensOutsideTheByteAlphabetKeepTheirText) {
  json root = small_tokenizer();
  root["model"]["vocab"]["\xEF\xBD\x9Cx"] = 256;
  const Tokenizer tokenizer = parse_or_die(root);
  EXPECT_EQ(tokenizer.decode(Ids{256}), "\xEF\xBD\x9Cx");
  EXPECT_EQ(tokenizer.token_to_id("\xEF\xBD\x9Cx"), 256);
  EXPECT_EQ(tokenizer.encode("\xEF\xBD\x9C").value().size(), 3u);
}

TEST(Tokenizer, ServesSeveralThreads) {
  const Tokenizer shared = parse_or_die(llama3_like());
  std::vector<std::string> texts;
  std::vector<Ids> expected;
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    texts.push_back(random_bytes(random));
    expected.push_back(parse_or_die(llama3_like()).encode(texts.back()).value());
  }
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int& count : wrong) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < texts.size(); ++i)
        count += shared.encode(texts[i]).value() != expected[i];
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

class TokenizerFolder : public testing::Test {
 protected:
  using NamedTokens = std::map<std::string, std::string, std::less<>>;

  TokenizerFolder() {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("neuronmm_tokenizer_" + std::to_string(getpid()) +
               std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~TokenizerFolder() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::string load_error() {
    const auto tokenizer = Tokenizer::load(folder_);
    return tokenizer.ok() ? "loaded" : tokenizer.error().message;
  }

  std::filesystem::path folder_;
};

TEST_F(TokenizerFolder, ConfigGivesBosEosAndTheChatTemplate) {
  write("tokenizer.json", llama3_like().dump());
  write("tokenizer_config.json",
        R"({"bos_token": {"content": "<tool>"}, "eos_token": "<end>", "chat_template": "one"})");
  const auto tokenizer = Tokenizer::load(folder_);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->bos_id(), 261);
  EXPECT_EQ(tokenizer->eos_id(), 260);
  EXPECT_EQ(tokenizer->config().chat_templates.at("default"), "one");
}

TEST_F(TokenizerFolder, TemplateFilesReplaceTheTemplatesOfTheConfig) {
  write("tokenizer.json", llama3_like().dump());
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "tool_use", "template": "two"},
                              {"name": "default", "template": "three"}]})");
  using Templates = std::map<std::string, std::string, std::less<>>;
  EXPECT_EQ(Tokenizer::load(folder_)->config().chat_templates,
            (Templates{{"default", "three"}, {"tool_use", "two"}}));
  write("tokenizer_config.json", R"({"chat_template": {"default": "six", "rag": "seven"}})");
  EXPECT_EQ(Tokenizer::load(folder_)->config().chat_templates,
            (Templates{{"default", "six"}, {"rag", "seven"}}));
  write("chat_template.jinja", "four");
  EXPECT_EQ(Tokenizer::load(folder_)->config().chat_templates, (Templates{{"default", "four"}}));
  std::filesystem::create_directory(folder_ / "additional_chat_templates");
  write("additional_chat_templates/rag.jinja", "five");
  EXPECT_EQ(Tokenizer::load(folder_)->config().chat_templates,
            (Templates{{"default", "four"}, {"rag", "five"}}));
}

TEST_F(TokenizerFolder, SpecialTokensAreReadByName) {
  write("tokenizer.json", llama3_like().dump());
  write("tokenizer_config.json",
        R"({"bos_token": {"content": "<tool>"}, "add_bos_token": true, "pad_token": null,
            "image_token": "<image>", "extra_special_tokens": {"boi": "<boi>"}})");
  write("special_tokens_map.json", R"({"unk_token": "<unk>"})");
  EXPECT_EQ(Tokenizer::load(folder_)->config().special_tokens,
            (NamedTokens{{"bos_token", "<tool>"},
                         {"image_token", "<image>"},
                         {"boi", "<boi>"},
                         {"unk_token", "<unk>"}}));
}

TEST_F(TokenizerFolder, AKeyOfTheConfigMayBeRepeatedWithItsValue) {
  write("tokenizer.json", llama3_like().dump());
  write("tokenizer_config.json",
        R"({"x": {"a": 1, "a": 1}, "extra_special_tokens": {"image_token": "<i>"}})");
  EXPECT_EQ(Tokenizer::load(folder_)->config().special_tokens,
            (NamedTokens{{"image_token", "<i>"}}));
}

// The expected tokens are those of transformers 5.24 (PreTrainedTokenizerFast.from_pretrained).
TEST_F(TokenizerFolder, TheSpecialTokensMapCountsAsInTransformers) {
  write("tokenizer.json", llama3_like().dump());
  json config = {{"bos_token", "<tool>"},
                 {"image_token", "<c>"},
                 {"extra_special_tokens", {{"boi", "<cx>"}, {"image", "<cx>"}}}};
  write("tokenizer_config.json", config.dump());
  write("special_tokens_map.json",
        R"({"bos_token": "<end>", "unk_token": "<m>", "image_token": "<m>", "audio_token": "<m>",
            "extra_special_tokens": {"boi": "<mx>", "eoi": "<mx>"}})");
  const auto special_tokens = [&] { return Tokenizer::load(folder_)->config().special_tokens; };
  EXPECT_EQ(special_tokens(), (NamedTokens{{"bos_token", "<end>"},
                                           {"unk_token", "<m>"},
                                           {"image_token", "<c>"},
                                           {"audio_token", "<m>"},
                                           {"boi", "<mx>"},
                                           {"image", "<cx>"},
                                           {"eoi", "<mx>"}}));
  config["added_tokens_decoder"] = json::object();
  write("tokenizer_config.json", config.dump());
  EXPECT_EQ(
      special_tokens(),
      (NamedTokens{
          {"bos_token", "<tool>"}, {"image_token", "<c>"}, {"boi", "<cx>"}, {"image", "<cx>"}}));
  config = {{"bos_token", "<tool>"}, {"extra_special_tokens", {{"bos_token", "<end>"}}}};
  write("tokenizer_config.json", config.dump());
  write("special_tokens_map.json", R"({"bos_token": "<tool>"})");
  EXPECT_EQ(special_tokens(), (NamedTokens{{"bos_token", "<end>"}}));
}

// The ids and texts are those of transformers 5.23 (PreTrainedTokenizerFast.from_pretrained), which
// adds the standard tokens first, then the other named ones, and then the rest.
TEST_F(TokenizerFolder, SpecialTokensThatTheVocabularyLacksAreAdded) {
  write("tokenizer.json", llama3_like().dump());
  const TokenId next = static_cast<TokenId>(Tokenizer::load(folder_)->vocab_size());
  const auto added = [&](const std::string& config, const std::string& map = "{}",
                         const std::string& file = "{}") {
    write("tokenizer_config.json", config);
    write("special_tokens_map.json", map);
    write("added_tokens.json", file);
    const auto tokenizer = Tokenizer::load(folder_);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    std::string text;
    for (TokenId id = next; tokenizer.ok() && id < tokenizer->vocab_size(); ++id)
      text += tokenizer->decode(std::span(&id, 1)) + (tokenizer->is_special(id) ? "" : "!");
    return text;
  };
  EXPECT_EQ(added(R"({"extra_special_tokens": ["<y>", "<x>"]})"), "<y><x>");
  EXPECT_EQ(added(R"({"extra_special_tokens": ["<y>", "<y>", "", "<x>", "<tool>"]})"), "<y><x>");
  EXPECT_EQ(added(R"({"extra_special_tokens": {"y_token": "<y>", "x_token": "<x>"}})"), "<y><x>");
  EXPECT_EQ(added(R"({"additional_special_tokens": ["<y>", "<x>"]})"), "<y><x>");
  EXPECT_EQ(added(R"({"additional_special_tokens": ["<y>"], "extra_special_tokens": ["<x>"]})"),
            "<x>");
  EXPECT_EQ(added(R"({"additional_special_tokens": ["<y>"], "extra_special_tokens": []})"), "<y>");
  EXPECT_EQ(added(R"({"zz_token": "<y>", "pad_token": "<pad>", "eos_token": "<x>",
                      "extra_special_tokens": ["<w>"]})"),
            "<x><pad><y><w>");
  EXPECT_EQ(added("{}", R"({"additional_special_tokens": ["<y>"], "pad_token": "<pad>"})"),
            "<pad><y>");
  EXPECT_EQ(added(R"({"added_tokens_decoder": {}})", R"({"extra_special_tokens": ["<y>"]})"), "");
  EXPECT_EQ(added("{}", "{}", R"({"<x>": 901, "<y>": 900})"), "<y>!<x>!");
  EXPECT_EQ(added(R"({"extra_special_tokens": null, "pad_token": null})"), "");
}

TEST_F(TokenizerFolder, ExtraSpecialTokensAreFoundInTexts) {
  write("tokenizer.json", llama3_like().dump());
  write("tokenizer_config.json", R"({"extra_special_tokens":
      ["<y>", {"__type": "AddedToken", "content": "<x>", "lstrip": true, "special": false}]})");
  const auto tokenizer = Tokenizer::load(folder_);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const auto ids = tokenizer->encode("<y> <x>", {.add_special_tokens = false}).value();
  EXPECT_EQ(ids,
            (std::vector<TokenId>{*tokenizer->token_to_id("<y>"), *tokenizer->token_to_id("<x>")}));
  EXPECT_TRUE(tokenizer->is_special(ids[1]));
  EXPECT_EQ(tokenizer->decode(ids, /*skip_special_tokens=*/true), "");
}

TEST_F(TokenizerFolder, ErrorsNameTheFileAndTheField) {
  EXPECT_NE(load_error().find(folder_.string()), std::string::npos);
  EXPECT_NE(load_error().find("tokenizer.json"), std::string::npos);
  write("tokenizer.json", "{");
  EXPECT_NE(load_error().find("tokenizer.json"), std::string::npos);
  write("tokenizer.json", llama3_like().dump());
  EXPECT_EQ(load_error(), "loaded");
  for (const char* wrong : {"3", "\"<x>\"", "[3]", R"({"x": 3})"}) {
    write("tokenizer_config.json", R"({"extra_special_tokens": )" + std::string(wrong) + "}");
    EXPECT_NE(load_error().find("extra_special_tokens"), std::string::npos) << load_error();
  }
  write("tokenizer_config.json", R"({"eos_token": 5})");
  EXPECT_NE(load_error().find("eos_token"), std::string::npos) << load_error();
  write("tokenizer_config.json", R"({"chat_template": [5]})");
  EXPECT_NE(load_error().find("chat_template"), std::string::npos) << load_error();
  const auto nowhere = Tokenizer::load(folder_ / "nowhere");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_NE(nowhere.error().message.find("nowhere"), std::string::npos);
}

}  // namespace
}  // namespace neuronmm::text
