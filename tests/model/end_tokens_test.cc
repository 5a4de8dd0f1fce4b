// Tests which tokens are recognized as ends of a text or a turn.

#include "model/end_tokens.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace neuronmm::model {
namespace {

std::vector<int64_t> ends_of(const std::map<std::string, int64_t, std::less<>>& tokens) {
  return recognized_end_tokens([&](std::string_view text) -> std::optional<int64_t> {
    const auto found = tokens.find(text);
    return found == tokens.end() ? std::nullopt : std::optional(found->second);
  });
}

using EndIds = std::vector<int64_t>;

TEST(EndTokens, PublishedVocabulariesHaveThoseOfLlamaCpp) {
  EXPECT_EQ(ends_of({{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}}),
            (EndIds{151645, 151643}))
      << "Qwen";
  EXPECT_EQ(ends_of({{"<|end_of_text|>", 128001}, {"<|eom_id|>", 128008}, {"<|eot_id|>", 128009}}),
            (EndIds{128009, 128008, 128001}))
      << "Llama 3";
  EXPECT_EQ(ends_of({{"<eos>", 1}, {"<start_of_turn>", 105}, {"<end_of_turn>", 106}}),
            (EndIds{106, 1}))
      << "Gemma 3";
  EXPECT_EQ(ends_of({{"<s>", 1}, {"</s>", 2}}), EndIds{2}) << "Llama 2";
  EXPECT_EQ(ends_of({{"<|endoftext|>", 32000}, {"<|end|>", 32007}}), (EndIds{32007, 32000}))
      << "Phi-3";
  EXPECT_EQ(ends_of({{"<｜end▁of▁sentence｜>", 1}}), EndIds{1}) << "DeepSeek";
  EXPECT_EQ(ends_of({{"[EOS]", 5}, {"[EOT]", 6}, {"_<EOT>", 7}}), (EndIds{7, 6, 5}));
  EXPECT_EQ(ends_of({{"a", 0}, {"<|im_start|>", 1}}), EndIds{});
}

TEST(EndTokens, AnEndOfAChannelDoesNotEndTheAnswer) {
  EXPECT_EQ(ends_of({{"<|return|>", 200002}, {"<|call|>", 200012}, {"<|end|>", 200007}}),
            (EndIds{200002, 200012}))
      << "gpt-oss";
  EXPECT_EQ(ends_of({{"<|calls|>", 1}, {"<|flush|>", 2}, {"<|end|>", 3}}), (EndIds{2, 1}));
  EXPECT_EQ(ends_of({{"<|return|>", 1}, {"<|end|>", 3}}), (EndIds{3, 1}));
}

TEST(EndTokens, SomeVocabulariesHaveTheEndOfSentencePieceAsText) {
  EXPECT_EQ(ends_of({{"<|tool_response>", 4}, {"</s>", 3}, {"<turn|>", 2}}), (EndIds{2, 4}));
  EXPECT_EQ(ends_of({{"<|plamo:eos|>", 4}, {"</s>", 3}}), EndIds{});
}

}  // namespace
}  // namespace neuronmm::model
