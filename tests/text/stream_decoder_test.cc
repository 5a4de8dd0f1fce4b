// Tests decoding tokens that arrive one by one.

#include "text/stream_decoder.h"

#include <random>

#include <gtest/gtest.h>

#include "small_tokenizer.h"
#include "text/unicode/utf8.h"

namespace neuronmm::text {
namespace {

const std::string kReplacement = "\xEF\xBF\xBD";

Tokenizer byte_tokenizer() {
  nlohmann::json root = small_tokenizer();
  root["added_tokens"].push_back(added_token("<end>", 256));
  root["added_tokens"].push_back(added_token("<tool>", 257, false));
  return parse_or_die(root);
}

TEST(StreamDecoder, EmitsOnlyCompleteCharacters) {
  const Tokenizer tokenizer = byte_tokenizer();
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push('a'), "a");
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.push(0x9F), "");
  EXPECT_EQ(decoder.push(0x98), "");
  EXPECT_EQ(decoder.push(0x80), "\xF0\x9F\x98\x80");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, BytesThatCannotBecomeACharacterAreReplaced) {
  const Tokenizer tokenizer = byte_tokenizer();
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(0xE2), "");
  EXPECT_EQ(decoder.push(0x82), "");
  EXPECT_EQ(decoder.push('a'), kReplacement + "a");
  EXPECT_EQ(decoder.push(0xFF), kReplacement);
  EXPECT_EQ(decoder.push(0xC3), "");
  EXPECT_EQ(decoder.push(0xC3), kReplacement);
  EXPECT_EQ(decoder.finish(), kReplacement);
  EXPECT_EQ(decoder.finish(), "");
  EXPECT_EQ(decoder.push('b'), "b");
}

TEST(StreamDecoder, SpecialTokensAreSkippedOrShown) {
  const Tokenizer tokenizer = byte_tokenizer();
  StreamDecoder skipping(tokenizer), showing(tokenizer, false);
  EXPECT_EQ(skipping.push(256), "");
  EXPECT_EQ(skipping.push(257), "<tool>");
  EXPECT_EQ(skipping.push(-1), "");
  EXPECT_EQ(skipping.push(9999), "");
  EXPECT_EQ(showing.push(256), "<end>");
}

// The pieces of random bytes must all be UTF-8. Together they must give the text with replacements.
TEST(StreamDecoder, PiecesJoinToTheWholeText) {
  const Tokenizer tokenizer = byte_tokenizer();
  for (uint32_t seed = 1; seed <= 500; ++seed) {
    std::mt19937 random(seed);
    std::string bytes;
    for (int i = 0; i < 12; ++i) {
      if (below(random, 3) == 0)
        bytes.push_back(static_cast<char>(below(random, 256)));
      else
        bytes += utf8_of(0x20 + below(random, 0xD000));
    }
    std::string expected, joined;
    for (std::string_view rest = bytes; !rest.empty();) {
      const Utf8Step step = next_utf8(rest);
      const auto length = static_cast<size_t>(step.length);
      const bool good = step.kind == Utf8Step::Kind::kCharacter;
      expected += good ? rest.substr(0, length) : std::string_view(kReplacement);
      rest.remove_prefix(length);
    }
    StreamDecoder decoder(tokenizer);
    for (const char byte : bytes) {
      const std::string piece = decoder.push(static_cast<uint8_t>(byte));
      ASSERT_EQ(valid_utf8_length(piece), std::ssize(piece)) << "seed " << seed;
      joined += piece;
    }
    ASSERT_EQ(joined + decoder.finish(), expected) << "seed " << seed;
  }
}

}  // namespace
}  // namespace neuronmm::text
