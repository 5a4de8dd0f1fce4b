// Tests tool calls that are cut off, in OpenAI's Responses API. Clients must be able to see that
// such a call should not be made.

#include <gtest/gtest.h>

#include "serve/protocol/fake_server.h"

namespace neuronmm::serve {
namespace {

constexpr const char* kCall =
    "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x}b\"}}</tool_call>\nEND";

Json asked_with_tool(const Json& fields) {
  Json asked = {{"input", "Hi"}, {"tools", {{{"type", "function"}, {"name", "f"}}}}};
  asked.update(fields);
  return asked;
}

void expect_incomplete(const Json& response, const std::string& arguments) {
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_TRUE(response["incomplete_details"].is_object());
  ASSERT_EQ(response["output"].size(), 1u);
  const Json& call = response["output"][0];
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], "f");
  EXPECT_EQ(call["arguments"], arguments);
  EXPECT_EQ(call["status"], "incomplete");
}

// Expects the same incomplete call with and without a stream.
void expect_cut(const Json& fields, const ScriptedAnswer& answer, const std::string& arguments) {
  const ServedFolder folder;
  Json asked = asked_with_tool(fields);
  expect_incomplete(exchange(folder.model, asked, {answer}).body(), arguments);
  asked["stream"] = true;
  const auto events = exchange(folder.model, asked, {answer}).sink->typed_events();
  std::string sent;
  for (const Json& event : events) {
    if (event["type"] == "response.function_call_arguments.delta")
      sent += event["delta"].get<std::string>();
  }
  EXPECT_EQ(sent, arguments);
  EXPECT_EQ(events.back()["type"], "response.incomplete");
  expect_incomplete(events.back()["response"], arguments);
}

TEST(CutCalls, AreIncompleteIfAStopStringCutsThem) {
  expect_cut({{"stop", "}b"}}, says(kCall), "{\"a\": \"x");
}

TEST(CutCalls, AreIncompleteIfTheTokenLimitCutsThem) {
  const std::string begun = std::string(kCall).substr(0, 47);
  expect_cut({{"max_output_tokens", 47}}, {bytes(begun), FinishReason::kLength}, "{\"a\": \"x}");
}

TEST(CutCalls, CallIsCompleteIfTheStopStringFollowsIt) {
  const ServedFolder folder;
  const Json response =
      exchange(folder.model, asked_with_tool({{"stop", "END"}}), {says(kCall)}).body();
  EXPECT_EQ(response["status"], "completed");
  EXPECT_TRUE(response["incomplete_details"].is_null());
  EXPECT_EQ(response["output"][0]["status"], "completed");
}

}  // namespace
}  // namespace neuronmm::serve
