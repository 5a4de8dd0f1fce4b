// Reads any text as a list of records and as one record per line. The result must be an error that
// names the source, or records whose line numbers are those of the text, in order.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/training_records.h"

namespace {

using neuronmm::Result;
using neuronmm::text::Instruction;
using neuronmm::text::TrainingRecord;

// `step` is the smallest difference between the lines of two neighbouring records.
void check(const Result<std::vector<TrainingRecord>>& all, std::string_view text, int64_t step) {
  if (!all.ok()) {
    NMM_CHECK(all.error().message.starts_with("input:"));
    return;
  }
  int64_t smallest = 1;
  for (const TrainingRecord& record : *all) {
    if (const auto* const instruction = std::get_if<Instruction>(&record.content))
      NMM_CHECK(instruction->prompt.ends_with("### Response:\n"));
    NMM_CHECK(record.line >= smallest);
    smallest = record.line + step;
  }
  NMM_CHECK(all->empty() || all->back().line <= 1 + std::ranges::count(text, '\n'));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(neuronmm::text::parse_record_list(text, "input"), text, 0);
  check(neuronmm::text::parse_record_lines(text, "input"), text, 1);
  return 0;
}
