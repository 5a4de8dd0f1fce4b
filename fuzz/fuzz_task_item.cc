// Reads any text as a line of a task's file (the first byte chooses the task). The result must be
// an error that names the source, or an item whose gold label is one of its choices.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "eval/task_item.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace neuronmm::eval;
  if (size == 0) return 0;
  const Task& task = all_tasks()[data[0] % all_tasks().size()];
  if (task.is_text()) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto item = parse_item(task, text, {}, "input");
  if (!item.ok()) {
    NMM_CHECK(item.error().message.starts_with("input: "));
    return 0;
  }
  NMM_CHECK(item->requests.size() >= 2);
  NMM_CHECK(item->gold >= 0 && item->gold < std::ssize(item->requests));
  const size_t lengths = task.format == TaskFormat::kBlank ? 0 : item->requests.size();
  NMM_CHECK(item->choice_lengths.size() == lengths);
  for (const Request& request : item->requests) NMM_CHECK(request.continuation.starts_with(' '));
  return 0;
}
