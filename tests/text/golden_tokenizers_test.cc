// Compares ids and texts with those of PyPI's tokenizers 0.23.3 for tokenizers of all components.
// tests/slow/tokenizers/golden.py writes the expected values. tests/slow/tokenizers.sh compares
// thousands more.

#include <fstream>

#include <gtest/gtest.h>

#include "places.h"
#include "small_tokenizer.h"
#include "text/stream_decoder.h"
#include "text/unicode/utf8.h"

namespace neuronmm::text {
namespace {

using Ids = std::vector<TokenId>;
using nlohmann::json;

std::string to_utf8(std::string_view bytes) {
  Utf8Stream stream;
  const std::string text = stream.push(bytes);
  return text + stream.finish();
}

// Returns the joined pieces of a stream, each of which must be UTF-8.
std::string streamed(const Tokenizer& tokenizer, const Ids& ids) {
  StreamDecoder decoder(tokenizer, false);
  std::string text;
  const auto add = [&](const std::string& piece) {
    EXPECT_EQ(valid_utf8_length(piece), std::ssize(piece)) << piece;
    text += piece;
  };
  for (const TokenId id : ids) add(decoder.push(id));
  add(decoder.finish());
  return text;
}

TEST(GoldenTokenizers, HaveTheIdsAndTextOfTheTokenizersLibrary) {
  std::ifstream file(source_dir() / "tests/text/golden_tokenizers.json");
  const json golden = json::parse(file);
  int texts = 0;
  for (const json& entry : golden["cases"]) {
    json definition = entry["tokenizer"];
    definition["model"] = golden["models"].at(size_t{entry["model"]});
    definition["model"].update(entry["options"]);
    const Tokenizer tokenizer = parse_or_die(definition);
    for (const json& expected : entry["texts"]) {
      SCOPED_TRACE(expected.dump() + "\n" + entry["tokenizer"].dump() + entry["options"].dump());
      const std::string text = expected["text"], decoded = expected["decoded"];
      const Ids ids = tokenizer.encode(text).value();
      EXPECT_EQ(ids, Ids(expected["ids"]));
      EXPECT_EQ(tokenizer.encode(text).value(), ids) << "again";
      EXPECT_EQ(to_utf8(tokenizer.decode(ids)), decoded);
      EXPECT_EQ(to_utf8(tokenizer.decode(ids, true)), std::string(expected["without_special"]));
      // A stream does not take back characters that a later byte makes invalid.
      if (decoded.find(kReplacementCharacter) == std::string::npos) {
        EXPECT_EQ(streamed(tokenizer, ids), decoded);
      }
      ++texts;
    }
  }
  EXPECT_GE(texts, 400);
}

}  // namespace
}  // namespace neuronmm::text
