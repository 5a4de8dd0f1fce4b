// Any bytes as the body of a chat or, behind a first byte that is odd, of a text completion: an
// error of status 400 that is JSON, or a request within the limits that were promised.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "serve/protocol/chat_request.h"
#include "serve/protocol/completion_request.h"

namespace {

using namespace neuronmm::serve;

void check_error(const ApiError& error) {
  NMM_CHECK(error.status == 400 && !error.message.empty());
  NMM_CHECK(Json::accept(error_json(error)));
}

void check_answer(const AnswerFields& answer) {
  NMM_CHECK(answer.n >= 1 && answer.n <= kMostChoices);
  NMM_CHECK(answer.stop.size() <= kMostStopStrings);
  for (const std::string& stop : answer.stop) NMM_CHECK(!stop.empty());
  NMM_CHECK(answer.logprobs.value_or(0) <= kMostLogprobs);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    const auto request = parse_chat_request(body);
    if (!request.ok()) return check_error(request.error()), 0;
    check_answer(request->answer);
    NMM_CHECK(!request->conversation.messages.empty());
    NMM_CHECK(!request->tools.choice.forced() || !request->tools.tools.empty());
  } else {
    const auto request = parse_completion_request(body);
    if (!request.ok()) return check_error(request.error()), 0;
    check_answer(request->answer);
    NMM_CHECK(!request->prompts.empty() && request->prompts.size() <= kMostPrompts);
  }
  return 0;
}
