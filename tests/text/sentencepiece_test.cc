// Tests BPE as in the converted models of SentencePiece, on small vocabularies.

#include <chrono>
#include <random>

#include <gtest/gtest.h>

#include "small_tokenizer.h"
#include "text/stream_decoder.h"
#include "text/tokenizer/byte_token.h"

namespace neuronmm::text {
namespace {

using Ids = std::vector<TokenId>;
using nlohmann::json;

const std::string kMark = "\xE2\x96\x81";  // The character "▁".
constexpr TokenId kUnk = 0, kBos = 1, kEnd = 2, kFirstByte = 3, kFirstWord = 259;

// Makes a tokenizer with <unk>, <s>, </s>, the 256 bytes, and the given characters and words. Its
// merges join the words from left to right.
json sentencepiece(const std::vector<std::string>& words, bool with_bytes = true) {
  json vocab = {{"<unk>", kUnk}, {"<s>", kBos}, {"</s>", kEnd}};
  for (int b = 0; b < 256; ++b) {
    const std::string token = byte_token(static_cast<char>(b));
    vocab[with_bytes ? token : "unused" + token] = kFirstByte + b;
  }
  json merges = json::array();
  for (const std::string& word : words) {
    vocab[word] = vocab.size();
    const size_t first = word.starts_with(kMark) ? kMark.size() : 1;
    if (word.size() > first)
      merges.push_back(
          json::array({word.substr(0, word.size() - 1), word.substr(word.size() - 1)}));
  }
  const json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}};
  const json restore = {{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}};
  return {{"version", "1.0"},
          {"added_tokens",
           {added_token("<unk>", kUnk), added_token("<s>", kBos), added_token("</s>", kEnd)}},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers", {{{"type", "Prepend"}, {"prepend", kMark}}, replace}}}},
          {"pre_tokenizer", nullptr},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {restore,
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}},
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", vocab},
            {"merges", merges},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", with_bytes}}}};
}

constexpr TokenId kMarkId = kFirstWord, kA = kFirstWord + 1, kB = kFirstWord + 2,
                  kMarkA = kFirstWord + 3, kMarkAb = kFirstWord + 4;

json a_and_b(bool with_bytes = true) {
  return sentencepiece({kMark, "a", "b", kMark + "a", kMark + "ab"}, with_bytes);
}

TEST(SentencePiece, EncodingPrependsASpaceThatDecodingRemoves) {
  const Tokenizer tokenizer = parse_or_die(a_and_b());
  EXPECT_EQ(tokenizer.encode("ab b").value(), (Ids{kMarkAb, kMarkId, kB}));
  EXPECT_EQ(tokenizer.decode(Ids{kMarkAb, kMarkId, kB}), "ab b");
  EXPECT_EQ(tokenizer.encode(" ab").value(), (Ids{kMarkId, kMarkAb}));
  EXPECT_EQ(tokenizer.decode(Ids{kMarkId, kMarkAb}), " ab");
  EXPECT_EQ(tokenizer.encode("").value(), Ids{});
}

// Older files treat every text between special tokens as a new text. Newer files do so only for
// the first text.
TEST(SentencePiece, ThePrependSchemeDecidesOnASpaceAfterSpecialTokens) {
  json root = a_and_b();
  EXPECT_EQ(parse_or_die(root).encode("a</s>a").value(), (Ids{kMarkA, kEnd, kMarkA}));
  root["normalizer"] = nullptr;
  const auto encode = [&](const char* scheme, const char* text) {
    root["pre_tokenizer"] = {{"type", "Metaspace"},
                             {"replacement", kMark},
                             {"prepend_scheme", scheme},
                             {"split", false}};
    return parse_or_die(root).encode(text).value();
  };
  EXPECT_EQ(encode("first", "a</s>a"), (Ids{kMarkA, kEnd, kA}));
  EXPECT_EQ(encode("first", "</s>a"), (Ids{kEnd, kA}));
  EXPECT_EQ(encode("always", "</s>a"), (Ids{kEnd, kMarkA}));
  EXPECT_EQ(encode("never", "a a"), (Ids{kA, kMarkA}));
  EXPECT_EQ(encode("always", " a"), Ids{kMarkA});
}

TEST(SentencePiece, UnknownCharactersBecomeTheirByteTokens) {
  const Tokenizer tokenizer = parse_or_die(a_and_b());
  const Ids ids = {kMarkA, kFirstByte + 0xE2, kFirstByte + 0x82, kFirstByte + 0xAC, kB};
  EXPECT_EQ(tokenizer
                .encode("a\xE2\x82\xAC"
                        "b")
                .value(),
            ids);
  EXPECT_EQ(tokenizer.decode(ids),
            "a\xE2\x82\xAC"
            "b");
  // A byte that belongs to no character stands between two texts.
  EXPECT_EQ(tokenizer.encode("a\xFF").value(), (Ids{kMarkA, kFirstByte + 0xFF}));
  // Bytes that are not UTF-8 become one U+FFFD each.
  EXPECT_EQ(tokenizer.decode(Ids{kA, kFirstByte + 0xE2, kFirstByte + 'x', kB}),
            "a\xEF\xBF\xBD\xEF\xBF\xBD"
            "b");
}

TEST(SentencePiece, WithoutByteTokensUnknownCharactersBecomeOneToken) {
  json root = a_and_b(false);
  EXPECT_EQ(parse_or_die(root).encode("xyab z").value(),
            (Ids{kMarkId, kUnk, kA, kB, kMarkId, kUnk}));
  root["model"]["fuse_unk"] = false;
  EXPECT_EQ(parse_or_die(root).encode("xya").value(), (Ids{kMarkId, kUnk, kUnk, kA}));
  root["model"].erase("unk_token");
  EXPECT_EQ(parse_or_die(root).encode("xya").value(), (Ids{kMarkA}));
}

TEST(SentencePiece, StreamsRemoveTheFirstSpaceOnly) {
  const Tokenizer tokenizer = parse_or_die(a_and_b());
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(kBos), "");
  EXPECT_EQ(decoder.push(kMarkA), "a");
  EXPECT_EQ(decoder.push(kMarkAb), " ab");
  EXPECT_EQ(decoder.push(kMarkId), " ");
  for (const int byte : {0xF0, 0x9F, 0x98}) EXPECT_EQ(decoder.push(kFirstByte + byte), "");
  EXPECT_EQ(decoder.push(kFirstByte + 0x80), "\xF0\x9F\x98\x80");
  // Text that was emitted stays, although decode() would make four U+FFFD of a run that ends like
  // this.
  EXPECT_EQ(decoder.push(kFirstByte + 0xFF), "\xEF\xBF\xBD");
  EXPECT_EQ(decoder.push(kFirstByte + 'x'), "\xEF\xBF\xBD");
  EXPECT_EQ(decoder.push(kB), "b");
  EXPECT_EQ(decoder.push(kFirstByte + 0xE2), "");
  EXPECT_EQ(decoder.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(decoder.push(kMarkA), "a");  // A new text begins here.
}

TEST(SentencePiece, AContinuedStreamKeepsItsFirstSpace) {
  const Tokenizer tokenizer = parse_or_die(a_and_b());
  StreamDecoder decoder(tokenizer);
  decoder.continue_after(Ids{kBos, kMarkA, kFirstByte + 0xC3});
  EXPECT_EQ(decoder.push(kFirstByte + 0xA9), "\xC3\xA9");
  EXPECT_EQ(decoder.push(kMarkA), " a");
}

TEST(SentencePiece, LiteralRangesStayLiteralAfterNormalization) {
  json root = a_and_b();
  for (json& token : root["added_tokens"]) token["normalized"] = true;
  root["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}};
  const Tokenizer tokenizer = parse_or_die(root);
  const std::string text = "a </s> a</s> a";
  const ByteRange literal{2, 6};
  const Ids ids = tokenizer.encode(text, {.literal = {&literal, 1}}).value();
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kEnd), 1);
  EXPECT_EQ(tokenizer.encode(text).value(), (Ids{kA, kMarkId, kEnd, kMarkA, kEnd, kMarkA}));
}

// A chat has a range for each message. Work for every pair of messages would take minutes, and the
// budget would end it with an error.
TEST(SentencePiece, TensOfThousandsOfLiteralRangesTakeLinearTime) {
  for (const bool normalized : {false, true}) {
    json root = a_and_b();
    for (json& token : root["added_tokens"]) token["normalized"] = normalized;
    if (normalized)  // a prefix would become a part of the added tokens
      root["normalizer"] = {
          {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}};
    const Tokenizer tokenizer = parse_or_die(root);
    constexpr size_t kMessages = 30'000;
    std::string text;
    std::vector<ByteRange> literal;
    for (size_t i = 0; i < kMessages; ++i) {
      literal.push_back({text.size(), text.size() + 7});
      text += "a </s>b</s>";
    }
    const auto ids = tokenizer.encode(text, {.literal = literal});
    ASSERT_TRUE(ids.ok()) << ids.error().message;
    EXPECT_EQ(static_cast<size_t>(std::count(ids->begin(), ids->end(), kEnd)), kMessages);
  }
}

// Merges of a word of megabytes must cross the places where it could be cut.
TEST(SentencePiece, MergesCrossSpacesIfTheVocabularyHasSuchTokens) {
  json root = sentencepiece({"a", "b", kMark});
  root["model"]["vocab"]["a" + kMark] = kFirstWord + 3;
  root["model"]["vocab"]["a" + kMark + "a"] = kFirstWord + 4;
  root["model"]["merges"] = json::array({"a " + kMark, "a" + kMark + " a"});
  EXPECT_EQ(parse_or_die(root).encode("a a a ab").value(),
            (Ids{kFirstWord + 2, kFirstWord + 3, kFirstWord + 3, kFirstWord + 4, kFirstWord + 1}));
}

// The whole text is one word, so quadratic work would take hours.
TEST(SentencePiece, MegabytesTakeSeconds) {
  json root = sentencepiece({kMark, "a", "aa", "aaa", "aaaa"});
  const Tokenizer tokenizer = parse_or_die(root);
  std::mt19937 random(5);
  std::string mixed;
  for (int i = 0; i < 1 << 20; ++i) mixed += "a a\n\xC3"[below(random, 5)];
  const auto start = std::chrono::steady_clock::now();
  const size_t letters = tokenizer.encode(std::string(1 << 20, 'a')).value().size();
  // The merge of pairs comes first.
  EXPECT_EQ(letters, 1u + (1 << 20) / 2);
  EXPECT_GT(tokenizer.encode(std::string(1 << 20, ' ')).value().size(), 1u << 20);
  EXPECT_GT(tokenizer.encode(mixed).value().size(), 1u << 17);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 30.0);
}

TEST(SentencePiece, PrefixAndSuffixApplyToTheWholeWord) {
  json root = sentencepiece({"a", "b"});
  root["normalizer"] = nullptr;
  root["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
  json& model = root["model"];
  model["byte_fallback"] = false;
  model["continuing_subword_prefix"] = "##";
  for (const char* token : {"##a", "##b", "ab", "##ab"})
    model["vocab"][token] = model["vocab"].size();
  model["merges"] = json::array({"a ##b", "##a ##b"});
  EXPECT_EQ(parse_or_die(root).encode("ab bab a").value(),
            (Ids{kFirstWord + 4, kFirstWord + 1, kFirstWord + 5, kFirstWord}));
  model["continuing_subword_prefix"] = "";
  model["end_of_word_suffix"] = "</w>";
  for (const char* token : {"b</w>", "ab</w>"}) model["vocab"][token] = model["vocab"].size();
  model["merges"] = json::array({"a b</w>"});
  EXPECT_EQ(parse_or_die(root).encode("ab aab").value(),
            (Ids{kFirstWord + 7, kFirstWord, kFirstWord + 7}));
}

TEST(SentencePiece, AMergeOfAMissingTokenIsNamed) {
  json root = a_and_b();
  root["model"]["merges"].push_back(json::array({"a", "b"}));
  const auto tokenizer = Tokenizer::parse(root.dump(), "FILE");
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().message,
            "FILE: model.merges[2]: the merge of \"a\" and \"b\": \"ab\" is not in the vocabulary");
}

}  // namespace
}  // namespace neuronmm::text
