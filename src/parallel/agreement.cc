#include "parallel/agreement.h"

#include <string_view>
#include <vector>

namespace neuronmm::parallel {
namespace {

std::vector<std::string> gather_texts(Communicator& communicator, std::string_view mine) {
  std::vector<std::string> texts;
  for (const auto& bytes : communicator.all_gather(std::as_bytes(std::span(mine)))) {
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return texts;
}

}  // namespace

Status agree(Communicator& communicator, std::span<const Fact> facts) {
  for (const Fact& fact : facts) {
    const std::vector<std::string> values = gather_texts(communicator, fact.value);
    for (size_t i = 1; i < values.size(); ++i) {
      if (values[i] == values[0]) continue;
      return fail(
          "expected {} to be the same in all processes, found {} in process 0 and {} in "
          "process {}",
          fact.name, values[0], values[i], i);
    }
  }
  return {};
}

// The "!" makes the text of an error non-empty even if its message is empty.
Status first_error_of_all(Communicator& communicator, const Status& status) {
  const std::vector<std::string> errors =
      gather_texts(communicator, status.ok() ? "" : "!" + status.error().message);
  for (size_t i = 0; i < errors.size(); ++i) {
    if (errors[i].empty()) continue;
    const std::string message = errors[i].substr(1);
    return i == 0 ? fail("{}", message) : fail("process {}: {}", i, message);
  }
  return {};
}

}  // namespace neuronmm::parallel
