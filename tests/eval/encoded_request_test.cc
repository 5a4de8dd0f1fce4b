// This test checks how a request becomes tokens by lm-evaluation-harness's rules. The tokenizer is
// simple: byte b is token b, and merge number i makes token 256 + i.

#include "eval/encoded_request.h"

#include <gtest/gtest.h>

#include "eval/eval_test.h"
#include "text/small_tokenizer.h"

namespace neuronmm::eval {
namespace {

using Tokens = std::vector<TokenId>;
constexpr TokenId kBos = 258, kEos = 259;  // after 256 bytes and two merges
constexpr TokenId kSpaceA = 256;           // " a"

enum class Specials { kNone, kEosOnly, kBosTemplate };

text::Tokenizer tokenizer(Specials specials) {
  nlohmann::json json = text::small_tokenizer({{" ", "a"}, {":", " "}});
  json["added_tokens"] = {text::added_token("<bos>", kBos), text::added_token("<eos>", kEos)};
  if (specials == Specials::kBosTemplate) {
    json["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", "<bos>"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"pair", nlohmann::json::array()},
        {"special_tokens", {{"<bos>", {{"id", "<bos>"}, {"ids", {kBos}}, {"tokens", {"<bos>"}}}}}}};
  }
  const model::ModelFolder folder;
  folder.write_text("tokenizer.json", json.dump());
  nlohmann::json config = nlohmann::json::object();
  if (specials != Specials::kNone) config["eos_token"] = "<eos>";
  if (specials == Specials::kBosTemplate) config["bos_token"] = "<bos>";
  folder.write_text("tokenizer_config.json", config.dump());
  return value_of(text::Tokenizer::load(folder.path()));
}

EncodedRequest encode(const std::string& context, const std::string& continuation,
                      const EncodeRules& rules = {true, 100},
                      Specials specials = Specials::kBosTemplate) {
  return value_of(encode_request(tokenizer(specials), {context, continuation}, rules));
}

void expect(const EncodedRequest& request, const Tokens& inputs, const Tokens& targets) {
  EXPECT_EQ(request.inputs, inputs);
  EXPECT_EQ(request.targets, targets);
}

TEST(EncodedRequest, ContextAndContinuationAreEncodedTogether) {
  expect(encode("x", " ab"), {kBos, 'x', kSpaceA}, {kSpaceA, 'b'});
  expect(encode("x", "y"), {kBos, 'x'}, {'y'});
  expect(encode("x", " ab", {false, 100}), {'x', kSpaceA}, {kSpaceA, 'b'});
  expect(encode("x", " ab", {true, 100}, Specials::kNone), {'x', kSpaceA}, {kSpaceA, 'b'});
}

// ":" and " " merge before " a" could. The whole is therefore shorter than its parts, and the
// context keeps the tokens of its own encoding.
TEST(EncodedRequest, ATokenMaySpanContextAndContinuation) {
  nlohmann::json json = text::small_tokenizer({{":", " "}});
  const text::Tokenizer merges = text::parse_or_die(json);
  const auto request = value_of(encode_request(merges, {"x:", " ab"}, {true, 100}));
  expect(request, {'x', ':', 'a'}, {'a', 'b'});
}

TEST(EncodedRequest, WhiteSpaceAtTheEndOfTheContextMovesToTheContinuation) {
  expect(encode("x ", "ab"), {kBos, 'x', kSpaceA}, {kSpaceA, 'b'});
  expect(encode("x\n ", "b"), {kBos, 'x', '\n', ' '}, {'\n', ' ', 'b'});
  expect(encode(" ", "ab"), {kBos, kSpaceA}, {kSpaceA, 'b'});
}

TEST(EncodedRequest, AnEmptyContextIsOneBosOrEos) {
  expect(encode("", "ab"), {kBos, 'a'}, {'a', 'b'});
  expect(encode("", "ab", {false, 100}), {kBos, 'a'}, {'a', 'b'});
  expect(encode("", "ab", {true, 100}, Specials::kEosOnly), {kEos, 'a'}, {'a', 'b'});
  expect(encode("", "<bos>ab"), {kBos, 'a'}, {'a', 'b'});  // BOS is not added twice
  EXPECT_TRUE(has(message_of(encode_request(tokenizer(Specials::kNone), {"", "ab"}, {true, 100})),
                  "needs a BOS or EOS token"));
}

TEST(EncodedRequest, ATooLongContextLosesItsStart) {
  const EncodedRequest fits = encode("xyz", "bc", {true, 5});
  expect(fits, {kBos, 'x', 'y', 'z', 'b'}, {'b', 'c'});
  EXPECT_FALSE(fits.truncated);
  const EncodedRequest cut = encode("xyz", "bc", {true, 3});
  expect(cut, {'y', 'z', 'b'}, {'b', 'c'});
  EXPECT_TRUE(cut.truncated);
  const EncodedRequest tight = encode("xyz", "bc", {true, 2});
  expect(tight, {'z', 'b'}, {'b', 'c'});
  EXPECT_EQ(message_of(encode_request(tokenizer(Specials::kNone), {"x", "bcd"}, {true, 2})),
            "a choice has 3 tokens, more than max_position_embeddings 2");
}

TEST(EncodedRequest, RefusesRequestsThatCannotBeScored) {
  const text::Tokenizer plain = tokenizer(Specials::kNone);
  EXPECT_TRUE(has(message_of(encode_request(plain, {" ", "a"}, {true, 100})), "context"));
  EXPECT_TRUE(has(message_of(encode_request(plain, {"x", ""}, {true, 100})), "choice"));
  TaskItem item;
  item.line = 7;
  item.requests = {{"x", "y"}, {"x", ""}};
  EXPECT_TRUE(message_of(encode_items(plain, {item}, {true, 100}, "f")).starts_with("f:7: "));
}

TEST(EncodedItem, SharedTokensEndWhereAPredictionIsScored) {
  const EncodedRequest ab = {{1, 2, 3, 4}, {4, 5}, false}, ac = {{1, 2, 3, 4, 6}, {4, 6, 7}, false};
  EXPECT_EQ((EncodedItem{{ab, ac}}.shared_tokens()), 3);  // token 4 is scored after 3
  const EncodedRequest single = {{1, 2, 3}, {9}, false};
  EXPECT_EQ((EncodedItem{{ab, single}}.shared_tokens()), 3);  // all tokens that it reads
  const EncodedRequest other = {{1, 8, 3, 4}, {4, 5}, false};
  EXPECT_EQ((EncodedItem{{ab, other}}.shared_tokens()), 1);
  const EncodedRequest cut = {{2, 3, 4}, {4, 5}, true};
  EXPECT_EQ((EncodedItem{{ab, cut}}.shared_tokens()), 0);
}

}  // namespace
}  // namespace neuronmm::eval
