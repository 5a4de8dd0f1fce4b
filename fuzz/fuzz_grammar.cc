// Compiles any text as a JSON Schema and as a regular expression, within a small budget. Whatever
// the text is, the work must end near the limits. The result must be an error, or a grammar whose
// masks always allow a token or the end of the answer. The first byte chooses which it is.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "answer_writer.h"
#include "serve/schema/schema_compiler.h"

namespace {

using namespace neuronmm::grammar;
namespace text = neuronmm::text;

constexpr BudgetLimits kLimits = {.steps = 3'000'000, .bytes = int64_t{24} << 20};
// Limits what may be done between two checks of the budget.
constexpr int64_t kPortion = 1'500'000;

std::shared_ptr<const TokenVocabulary> vocabulary() {
  static const auto kVocabulary = [] {
    std::vector<std::string> texts = {""};
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    for (const char* more :
         {"{\"", "\": ", "\", \"", "[[", "]]", "]}", "null", "true", "abc", "10", "  ", "\n "})
      texts.emplace_back(more);
    return std::make_shared<const TokenVocabulary>(std::move(texts), std::vector<text::TokenId>{0});
  }();
  return kVocabulary;
}

neuronmm::Result<CompiledGrammar> compile(std::string_view input, bool is_pattern, Budget& budget) {
  if (is_pattern) return compile_text(input, "input", &budget);
  NMM_ASSIGN(const Json schema, SchemaDocument::parse(input, "input"));
  return compile_schema(schema, "input", {.closed_objects = true, .budget = &budget});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  Budget budget(kLimits);
  auto compiled = compile(input, data[0] % 2 == 0, budget);
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
