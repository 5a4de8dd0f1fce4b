// Reads any bytes as a tokenizer.json. The result must be an error, or a tokenizer that encodes and
// decodes without harm.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/stream_decoder.h"
#include "text/tokenizer/tokenizer.h"

namespace {

constexpr std::string_view kTexts[] = {
    "", "Hello, world!  \n\t<|end|> 12345", "e\xCC\x81\xE1\x84\x92\xE1\x85\xA1 \xF0\x9F\x98\x80",
    "\xFF\xC3 \xE2\x82 abcabc'll\xED\xA0\x80", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = neuronmm::text::Tokenizer::parse(json, "fuzz");
  if (!tokenizer.ok()) return 0;
  for (const std::string_view text : kTexts) {
    for (const bool parse_added : {false, true}) {
      const neuronmm::text::ByteRange middle{text.size() / 3, text.size() / 2};
      const auto ids = tokenizer->encode(
          text, {.parse_added_tokens = parse_added, .literal = {&middle, size_t{parse_added}}});
      if (!ids.ok()) continue;
      (void)tokenizer->decode(*ids);
      (void)tokenizer->decode(*ids, true);
      neuronmm::text::StreamDecoder decoder(*tokenizer);
      for (const auto id : *ids) (void)decoder.push(id);
      (void)decoder.finish();
    }
  }
  (void)tokenizer->decode(std::vector<neuronmm::text::TokenId>{-1, 0, 1, INT32_MAX});
  return 0;
}
