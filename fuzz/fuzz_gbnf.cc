// Compiles any text as a grammar in GBNF, within a small budget. Whatever the text is, the work
// must end near the limits. The result must be an error, or a grammar whose masks always allow a
// token or the end of the answer.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "answer_writer.h"
#include "serve/grammar/gbnf.h"

namespace {

using namespace neuronmm::grammar;
namespace text = neuronmm::text;

constexpr BudgetLimits kLimits = {.steps = 3'000'000, .bytes = int64_t{24} << 20};
// Limits what may be done between two checks of the budget.
constexpr int64_t kPortion = 1'500'000;
// Token 0 ends an answer. Tokens 1 and 2 have no text, as special tokens have none.
constexpr text::TokenId kFirstByte = 3;

std::shared_ptr<const TokenVocabulary> vocabulary() {
  static const auto kVocabulary = [] {
    std::vector<std::string> texts(static_cast<size_t>(kFirstByte));
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    for (const char* more : {"ab", "abc", "12", "  ", "\n ", "<a", "é"}) texts.emplace_back(more);
    return std::make_shared<const TokenVocabulary>(std::move(texts), std::vector<text::TokenId>{0});
  }();
  return kVocabulary;
}

GbnfVocabulary tokens() {
  return {.token_of = [](std::string_view token) -> std::optional<text::TokenId> {
            if (token == "<a>") return 1;
            if (token == "<b>") return 2;
            return std::nullopt;
          },
          .may_occur = [](text::TokenId id) { return id > 0 && id < vocabulary()->size(); }};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  Budget budget(kLimits);
  auto compiled = compile_gbnf(input, "input", tokens(), &budget);
  NMM_CHECK(budget.steps() <= kLimits.steps + kPortion);
  if (!compiled.ok()) {
    NMM_CHECK(!compiled.error().message.empty());
    return 0;
  }
  const auto masks =
      TokenMasks::make(std::move(compiled).value(), vocabulary(), int64_t{1} << 20, &budget);
  if (masks.ok()) write_answer(*masks);
  return 0;
}
