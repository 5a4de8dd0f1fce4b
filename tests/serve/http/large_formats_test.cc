// Tests requests whose output format takes long to compile: their answers, other requests beside
// them, and the end of such work when the client leaves or the server stops.

#include <chrono>

#include "serve/http/served_demo.h"

namespace neuronmm::serve {
namespace {

using Clock = std::chrono::steady_clock;

std::string with_regex(const std::string& regex) {
  return TestJson(
             {{"prompt", "Once"}, {"max_tokens", 2}, {"structured_outputs", {{"regex", regex}}}})
      .dump();
}

// Takes about a second until the budget is exceeded. The number makes patterns differ.
std::string hostile(int number) {
  return with_regex("^(?:" + std::string(60, '.') + "){200}(?:a|b|.)*a(?:a|b|.){40}" +
                    std::to_string(number) + "$");
}

TEST_F(HttpTest, FormatBeyondItsBudgetIsRefusedByName) {
  start();
  HttpClient client(port());
  const HttpResponse refused = client.post("/v1/completions", hostile(0));
  EXPECT_EQ(refused.status, 400);
  const TestJson error = error_of(refused);
  EXPECT_EQ(error["param"], "structured_outputs.regex");
  EXPECT_NE(error["message"].get<std::string>().find("structured_outputs.regex"), std::string::npos)
      << error;
  EXPECT_NE(error["message"].get<std::string>().find("too large"), std::string::npos) << error;
  TestJson schema;
  schema["properties"]["a"] = {
      {"type", "array"}, {"minItems", 1'000'000}, {"items", {{"$ref", "#"}}}};
  TestJson body = {{"prompt", "Once"}, {"max_tokens", 2}};
  body["structured_outputs"]["json"] = schema;
  const HttpResponse other = client.post("/v1/completions", body.dump());
  EXPECT_EQ(other.status, 400);
  EXPECT_NE(error_of(other)["message"].get<std::string>().find("/properties/a"), std::string::npos)
      << other.body;
}

// Returns one request for each field that can demand a format, with its path.
std::vector<std::pair<std::string, TestJson>> requests_for(const TestJson& schema) {
  const TestJson messages = {{{"role", "user"}, {"content", "Once"}}};
  const TestJson named = {{"name", "x"}, {"schema", schema}};
  const TestJson function = {{"name", "go"}, {"strict", true}, {"parameters", schema}};
  TestJson format = named;
  format["type"] = "json_schema";
  return {
      {"/v1/completions", {{"prompt", "a"}, {"structured_outputs", {{"json", schema}}}}},
      {"/v1/completions",
       {{"prompt", "a"}, {"response_format", {{"type", "json_schema"}, {"json_schema", named}}}}},
      {"/v1/chat/completions",
       {{"messages", messages},
        {"response_format", {{"type", "json_schema"}, {"json_schema", named}}}}},
      {"/v1/chat/completions",
       {{"messages", messages},
        {"tools", {{{"type", "function"}, {"function", function}}}},
        {"tool_choice", "required"}}},
      {"/v1/responses", {{"input", "a"}, {"text", {{"format", format}}}}},
      {"/v1/messages",
       {{"messages", messages},
        {"max_tokens", 4},
        {"output_config", {{"format", {{"type", "json_schema"}, {"schema", schema}}}}}}},
  };
}

TEST_F(HttpTest, EachFieldWithAFormatHasABudget) {
  start();
  HttpClient client(port());
  TestJson schema = {{"type", "object"}};
  schema["properties"]["deep"] = {
      {"type", "array"}, {"minItems", 1'000'000}, {"items", {{"$ref", "#/properties/deep"}}}};
  for (const auto& [path, body] : requests_for(schema)) {
    const HttpResponse response = client.post(path, body.dump());
    EXPECT_EQ(response.status, 400) << path << response.body;
    EXPECT_NE(response.body.find("/properties/deep"), std::string::npos) << response.body;
  }
}

// The format exceeds the quick budget, and not the whole one.
TEST_F(HttpTest, LargeFormatIsAnswered) {
  start();
  TestJson schema;
  for (int i = 0; i < 200; ++i)
    schema["properties"]["p" + std::to_string(i)] = {
        {"type", "string"}, {"pattern", "^[a-z]{1," + std::to_string(300 + i) + "}$"}};
  schema["required"] = {"p0"};
  TestJson body = {{"prompt", "Once"}, {"max_tokens", 8}};
  body["structured_outputs"]["json"] = schema;
  const HttpResponse response = HttpClient(port()).post("/v1/completions", body.dump());
  EXPECT_EQ(response.status, 200) << response.body;
}

TEST_F(HttpTest, LargeFormatsDoNotDelayOtherRequests) {
  start();
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<HttpClient>(port()));
    clients.back()->send(post_text("/v1/completions", hostile(i)));
  }
  const auto begin = Clock::now();
  for (int i = 0; i < 5; ++i) {
    const HttpResponse response = HttpClient(port()).post(
        "/v1/completions", with_regex("[ab]{" + std::to_string(i + 1) + "}"));
    EXPECT_EQ(response.status, 200) << response.body;
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(HttpTest, DrainingEndsTheCompilationOfFormats) {
  start();
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<HttpClient>(port()));
    clients.back()->send(post_text("/v1/completions", hostile(i)));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto begin = Clock::now();
  server_->drain();
  for (const auto& client : clients) {
    const int status = client->read_response().status;
    EXPECT_TRUE(status == 503 || status == 0) << status;  // 0 if the request had not been read
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(700));
  for (int i = 0; i < 1000 && !server_->drained(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(server_->drained());
}

TEST_F(HttpTest, CompilationEndsWhenItsClientLeaves) {
  start();
  for (int i = 0; i < 20; ++i) {
    HttpClient client(port());
    client.send(post_text("/v1/completions", hostile(i)));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  // The queue of the 20 is gone, so this request, which has to wait for it, is answered soon.
  const auto begin = Clock::now();
  EXPECT_EQ(HttpClient(port()).post("/v1/completions", hostile(99)).status, 400);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(6));
}

}  // namespace
}  // namespace neuronmm::serve
