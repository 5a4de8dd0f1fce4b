// Tests every endpoint of the server with requests that succeed.

#include <chrono>
#include <set>
#include <thread>

#include "serve/http/http_text.h"
#include "serve/http/served_demo.h"

namespace neuronmm::serve {
namespace {

TEST_F(HttpTest, EveryEndpointAnswers) {
  start();
  HttpClient client(port());
  EXPECT_EQ(client.get("/health").body, R"({"status":"ok"})");
  EXPECT_EQ(client.get("/ready").status, 200);
  EXPECT_EQ(client.get("/").header("content-type"), "text/html; charset=utf-8");
  EXPECT_EQ(TestJson::parse(client.get("/version").body)["version"], "1.2.3");
  const TestJson models = TestJson::parse(client.get("/v1/models?limit=3").body);
  EXPECT_EQ(models["data"][0]["id"], "demo");
  EXPECT_EQ(models["data"][0]["max_model_len"], 512);
  EXPECT_EQ(client.get("/v1/model").body, R"({"model":"demo"})");
  const TestJson tokens =
      TestJson::parse(client.post("/tokenize", R"({"prompt": "Once upon a time"})").body);
  EXPECT_EQ(tokens["count"], tokens["tokens"].size());
  const TestJson text = TestJson::parse(
      client.post("/detokenize", TestJson({{"tokens", tokens["tokens"]}}).dump()).body);
  EXPECT_NE(std::string(text["prompt"]).find("Once upon a time"), std::string::npos);
  const TestJson chat = TestJson::parse(
      client.post("/apply-template", R"({"messages": [{"role": "user", "content": "hi"}]})").body);
  EXPECT_EQ(chat["prompt"], "hi\n");
  EXPECT_EQ(TestJson::parse(client.get("/tokenizer_info").body)["model_max_length"], 512);
}

// No field is dropped silently: whatever the path, a header names a field that no server knows.
TEST_F(HttpTest, EveryPathNamesUnknownFields) {
  start();
  HttpClient client(port());
  const TestJson messages = {{{"role", "user"}, {"content", "Once upon a time"}}};
  const std::pair<const char*, TestJson> requests[] = {
      {"/tokenize", {{"prompt", "a"}}},
      {"/tokenize", {{"content", "a"}}},
      {"/tokenize", {{"messages", messages}, {"add_generation_prompt", true}}},
      {"/detokenize", {{"tokens", {1}}}},
      {"/apply-template", {{"messages", messages}}},
      {"/v1/messages/count_tokens", {{"messages", messages}}},
      {"/v1/messages", {{"messages", messages}, {"max_tokens", 1}}},
      {"/v1/chat/completions", {{"messages", messages}, {"max_tokens", 1}}},
      {"/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}}},
      {"/v1/responses", {{"input", "a"}, {"max_output_tokens", 1}}},
      {"/v1/embeddings", {{"input", "a"}}},
      {"/embeddings", {{"content", "a"}}},
      {"/embedding", {{"content", "a"}}},
      {"/completion", {{"prompt", "a"}, {"n_predict", 1}}},
      {"/completions", {{"prompt", "a"}, {"n_predict", 1}}},
      {"/api/show", {{"model", "demo"}}},
      {"/api/embed", {{"model", "demo"}, {"input", "a"}}},
      {"/api/embeddings", {{"model", "demo"}, {"prompt", "a"}}},
      {"/api/chat", {{"model", "demo"}, {"messages", messages}, {"options", {{"num_predict", 1}}}}},
      {"/api/generate", {{"model", "demo"}, {"prompt", "a"}, {"options", {{"num_predict", 1}}}}},
  };
  for (const auto& [path, body] : requests) {
    const HttpResponse plain = client.post(path, body.dump());
    EXPECT_EQ(plain.status, 200) << path << plain.body;
    EXPECT_EQ(plain.header("x-unknown-fields"), "") << path;
    TestJson other = body;
    other["surprise"] = 1;
    other["more"] = nullptr;
    EXPECT_EQ(client.post(path, other.dump()).header("x-unknown-fields"), "more; surprise") << path;
  }
}

TEST_F(HttpTest, ResponsesApiAnswersWithOneBodyOrTypedEvents) {
  start();
  HttpClient client(port());
  TestJson body = {{"input", "Once upon a time"}, {"max_output_tokens", 8}, {"temperature", 0}};
  const TestJson whole = TestJson::parse(client.post("/v1/responses", body.dump()).body);
  EXPECT_EQ(whole["status"], "incomplete");
  EXPECT_EQ(whole["usage"]["output_tokens"], 8);
  body["stream"] = true;
  const HttpResponse response = client.post("/v1/responses", body.dump());
  EXPECT_EQ(response.header("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_TRUE(response.body.starts_with("event: response.created\ndata: {"));
  const size_t last = response.body.rfind("event: ");
  EXPECT_TRUE(response.body.substr(last).starts_with("event: response.incomplete\ndata: {"));
  const TestJson end =
      TestJson::parse(response.body.substr(response.body.find("data: ", last) + 6));
  EXPECT_EQ(end["response"]["output"][0]["content"], whole["output"][0]["content"]);
}

TEST_F(HttpTest, MessagesApiAnswersAndErrorsHaveAnthropicsFormat) {
  start();
  HttpClient client(port());
  TestJson body = {{"messages", {{{"role", "user"}, {"content", "Once upon a time"}}}},
                   {"max_tokens", 8},
                   {"temperature", 0}};
  const TestJson whole = TestJson::parse(client.post("/v1/messages?beta=true", body.dump()).body);
  EXPECT_EQ(whole["stop_reason"], "max_tokens");
  EXPECT_EQ(whole["usage"]["output_tokens"], 8);
  const TestJson counted =
      TestJson::parse(client.post("/v1/messages/count_tokens", body.dump()).body);
  const int64_t read = whole["usage"]["cache_read_input_tokens"];
  EXPECT_EQ(counted["input_tokens"], whole["usage"]["input_tokens"].get<int64_t>() + read);
  body["stream"] = true;
  const HttpResponse streamed = client.post("/v1/messages", body.dump());
  EXPECT_TRUE(streamed.body.starts_with("event: message_start\ndata: {"));
  EXPECT_TRUE(
      streamed.body.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
  body["model"] = "other";
  const HttpResponse unknown = client.post("/v1/messages", body.dump());
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(TestJson::parse(unknown.body)["error"]["type"], "not_found_error");
  EXPECT_EQ(TestJson::parse(client.post("/v1/messages", "{").body)["type"], "error");
}

TEST_F(HttpTest, OpenApiDescriptionListsExactlyTheEndpoints) {
  listen();  // the description is available before the model is loaded
  const HttpResponse response = HttpClient(port()).get("/openapi.json");
  EXPECT_EQ(response.header("content-type"), "application/json");
  const TestJson description = TestJson::parse(response.body);
  std::set<std::string> described, known, open;
  for (const auto& [path, methods] : description["paths"].items()) {
    for (const auto& [method, operation] : methods.items()) {
      described.insert(method + " " + path);
      if (operation.contains("security")) open.insert(path);
    }
  }
  for (const Route& route : routes()) {
    known.insert((route.method == "GET" ? "get " : "post ") + std::string(route.path));
    EXPECT_EQ(route.open, open.contains(std::string(route.path))) << route.path;
  }
  EXPECT_EQ(described, known);
}

TEST_F(HttpTest, ModelIsListedUnderItsName) {
  start();
  HttpClient client(port());
  const TestJson all = TestJson::parse(client.get("/v1/models").body);
  EXPECT_EQ(TestJson::parse(client.get("/v1/models/demo").body), all["data"][0]);
  EXPECT_EQ(TestJson::parse(client.get("/v1/models/d%65mo?x").body), all["data"][0]);
  for (const char* name : {"large", "demo/x", "de%", "%zz"}) {
    const HttpResponse unknown = client.get(std::string("/v1/models/") + name);
    EXPECT_EQ(unknown.status, 404);
    EXPECT_EQ(TestJson::parse(unknown.body)["error"]["code"], "model_not_found") << name;
  }
  EXPECT_EQ(TestJson::parse(client.get("/v1/models/").body), all);
}

TEST_F(HttpTest, LlamaCppsBiasOfFalseForbidsAToken) {
  start();
  HttpClient client(port());
  TestJson body = {{"prompt", "Once upon a time"},
                   {"n_predict", 1},
                   {"temperature", 0},
                   {"ignore_eos", true},
                   {"return_tokens", true}};
  const auto tokens = [&] {
    return TestJson::parse(client.post("/completion", body.dump()).body)["tokens"];
  };
  const TestJson likeliest = tokens();
  ASSERT_EQ(likeliest.size(), 1u);
  body["logit_bias"] = TestJson::array({TestJson::array({likeliest[0], false})});
  const TestJson other = tokens();
  ASSERT_EQ(other.size(), 1u) << other;
  EXPECT_NE(other, likeliest);
}

TEST_F(HttpTest, LlamaCppsEndpointsAnswerInItsForm) {
  start();
  HttpClient client(port());
  TestJson body = {{"prompt", "Once upon a time"},
                   {"n_predict", 6},
                   {"temperature", 0},
                   {"grammar", "root ::= ([a-z ] | <[5]>)+"}};
  const TestJson whole = TestJson::parse(client.post("/completion", body.dump()).body);
  EXPECT_EQ(whole["stop_type"], "limit");
  EXPECT_EQ(whole["tokens_predicted"], 6);
  EXPECT_EQ(TestJson::parse(client.post("/completions", body.dump()).body)["content"],
            whole["content"]);
  body["stream"] = true;
  const HttpResponse streamed = client.post("/completion", body.dump());
  EXPECT_EQ(streamed.header("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_TRUE(streamed.body.starts_with("data: {\"index\":0,\"content\":"));
  EXPECT_EQ(streamed.body.find("[DONE]"), std::string::npos);
  const TestJson props = TestJson::parse(client.get("/props").body);
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 512);
  EXPECT_EQ(props["default_generation_settings"]["params"]["dry_sequence_breakers"],
            TestJson::parse(R"(["\n", ":", "\"", "*"])"));
  // A slot is free soon after the last byte of its answer.
  const auto is_processing = [&] {
    return TestJson::parse(client.get("/slots").body)[0]["is_processing"] == true;
  };
  for (int i = 0; i < 500 && is_processing(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(is_processing());
  EXPECT_EQ(client.get("/lora-adapters").body, "[]");
  EXPECT_EQ(TestJson::parse(client.get("/models").body)["data"][0]["meta"]["n_vocab"], 2048);
  const std::pair<const char*, const char*> wrong[] = {
      {"/completion", R"({"prompt": 5})"},
      {"/completion", R"({"prompt": "a", "grammar": "root ::= root"})"},
      {"/completion", "{"},
      {"/infill", R"({"input_prefix": "a", "input_suffix": "b"})"}};
  for (const auto& [path, text] : wrong) {
    const HttpResponse refused = client.post(path, text);
    EXPECT_EQ(refused.status, 400) << text;
    const TestJson error = TestJson::parse(refused.body)["error"];
    EXPECT_EQ(error["code"], 400) << text;
    EXPECT_EQ(error["type"], "invalid_request_error") << text;
    EXPECT_FALSE(error.contains("param")) << text;
  }
  EXPECT_EQ(TestJson::parse(client.get("/completion").body)["error"]["code"], 405);
}

TEST_F(HttpTest, GrammarsHoldOnEveryPath) {
  start();
  HttpClient client(port());
  const std::string grammar = "root ::= \"Moves:\" (\" \" [a-h] [1-8]){2}";
  TestJson chat = {{"messages", {{{"role", "user"}, {"content", "x"}}}}, {"grammar", grammar}};
  const TestJson answer =
      TestJson::parse(client.post("/v1/chat/completions", chat.dump()).body)["choices"][0];
  EXPECT_EQ(answer["finish_reason"], "stop");
  const std::string text = answer["message"]["content"];
  EXPECT_TRUE(text.starts_with("Moves: ") && text.size() == 12) << text;
  chat["grammar"] = "root ::= a\na ::= a \"x\" | \"y\"";
  const TestJson error = error_of(client.post("/v1/chat/completions", chat.dump()));
  EXPECT_EQ(error["param"], "grammar");
  EXPECT_EQ(error["message"],
            "grammar: line 2: the rule a may begin with itself (left recursion: a, a)");
}

TEST_F(HttpTest, EmptyLinesBeforeARequestAreSkipped) {
  start();
  HttpClient client(port());
  ASSERT_TRUE(client.send("\r\n\r\n" + post_text("/v1/completions", completion(2, false)) + "\r"));
  EXPECT_EQ(client.read_response().status, 200);
  ASSERT_TRUE(client.send("\n" + get_text("/health")));
  EXPECT_EQ(client.read_response().status, 200);
}

TEST_F(HttpTest, PathsMayOmitV1AndMayContainTheServersAddress) {
  start();
  HttpClient client(port());
  EXPECT_EQ(client.get("/models").body, client.get("/v1/models").body);
  EXPECT_EQ(client.get("http://localhost/v1/models?a=b").body, client.get("/v1/models").body);
  EXPECT_EQ(client.get("http://localhost").header("content-type"), "text/html; charset=utf-8");
  EXPECT_EQ(client.post("/completions", completion(2, false)).status, 200);
  EXPECT_EQ(client.post("//v1/completions/", completion(2, false)).status, 200);
  EXPECT_EQ(client.get("/v1/v1/models").status, 404);
  EXPECT_EQ(client.get("/v1/health").body, client.get("/health").body);
}

TEST_F(HttpTest, AnswerMatchesTheWholePattern) {
  start();
  HttpClient client(port());
  const auto text = [&](const char* field, const TestJson& value) {
    const TestJson body = {{"prompt", "Once"}, {"max_tokens", 40}, {"seed", 5}, {field, value}};
    const HttpResponse response = client.post("/v1/completions", body.dump());
    EXPECT_EQ(response.status, 200) << response.body;
    return TestJson::parse(response.body)["choices"][0]["text"].get<std::string>();
  };
  EXPECT_EQ(text("structured_outputs", {{"choice", {"[yes]"}}}), "[yes]");
  EXPECT_EQ(text("guided_regex", "\u00e9|\u00e9a{2}").substr(0, 2), "\u00e9");
  const TestJson wrong = {{"prompt", "a"}, {"structured_outputs", {{"regex", "a["}}}};
  const TestJson error = error_of(client.post("/v1/completions", wrong.dump()));
  EXPECT_EQ(error["param"], "structured_outputs.regex");
}

TEST_F(HttpTest, StreamHasTheSameTextAsTheAnswerInOneBody) {
  start();
  HttpClient client(port());
  const HttpResponse whole = client.post("/v1/completions", completion(12, false));
  ASSERT_EQ(whole.status, 200) << whole.body;
  const HttpResponse stream = client.post("/v1/completions", completion(12, true));
  EXPECT_EQ(stream.header("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(stream.header("cache-control"), "no-cache");
  EXPECT_EQ(stream.header("x-accel-buffering"), "no");
  EXPECT_TRUE(stream.complete);
  EXPECT_TRUE(stream.body.ends_with("data: [DONE]\n\n"));
  std::string text;
  for (size_t at = 0; (at = stream.body.find("data: {", at)) != std::string::npos; ++at) {
    const size_t end = stream.body.find("\n\n", at);
    text += TestJson::parse(stream.body.substr(at + 6, end - at - 6))["choices"][0]["text"];
  }
  EXPECT_EQ(text, TestJson::parse(whole.body)["choices"][0]["text"]);
  EXPECT_GT(text.size(), 12u);
}

// Evaluation programs send such requests to learn how likely a text is.
TEST_F(HttpTest, WithMaxTokensZeroOnlyThePromptIsEvaluated) {
  start();
  HttpClient client(port());
  TestJson body = {{"prompt", "Once upon a time"}, {"max_tokens", 0}, {"temperature", 0}};
  const TestJson none = TestJson::parse(client.post("/v1/completions", body.dump()).body);
  EXPECT_EQ(none["usage"]["completion_tokens"], 0);
  EXPECT_EQ(none["choices"][0]["text"], "");
  EXPECT_EQ(none["choices"][0]["finish_reason"], "length");
  body["echo"] = true;
  body["logprobs"] = 1;
  const TestJson response = TestJson::parse(client.post("/v1/completions", body.dump()).body);
  EXPECT_EQ(response["usage"]["completion_tokens"], 0);
  EXPECT_EQ(response["choices"][0]["text"], body["prompt"]);
  const TestJson& likely = response["choices"][0]["logprobs"]["token_logprobs"];
  ASSERT_EQ(likely.size(), response["usage"]["prompt_tokens"]);
  EXPECT_TRUE(likely[0].is_null());
  for (size_t i = 1; i < likely.size(); ++i) EXPECT_LT(likely[i], 0.0);
}

TEST_F(HttpTest, PipelinedRequestsAreAnsweredInOrderOnOneConnection) {
  start();
  HttpClient client(port());
  ASSERT_TRUE(client.send(post_text("/v1/completions", completion(4, false)) + get_text("/health") +
                          post_text("/v1/completions", completion(3, true)) +
                          get_text("/version", "Connection: close\r\n")));
  EXPECT_EQ(TestJson::parse(client.read_response().body)["usage"]["completion_tokens"], 4);
  EXPECT_EQ(client.read_response().body, R"({"status":"ok"})");
  EXPECT_TRUE(client.read_response().body.ends_with("[DONE]\n\n"));
  const HttpResponse last = client.read_response();
  EXPECT_EQ(last.header("connection"), "close");
  EXPECT_TRUE(client.closed_by_server());
}

TEST_F(HttpTest, BodyMayBeChunkedOrWaitFor100Continue) {
  start();
  HttpClient client(port());
  ASSERT_TRUE(
      client.send("POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "5\r\n{\"pro\r\nA\r\nmpt\": \"a\"}\r\n0\r\n\r\n"));
  EXPECT_EQ(client.read_response().status, 200);
  ASSERT_TRUE(client.send(
      "POST /tokenize HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 15\r\n\r\n"));
  EXPECT_EQ(client.read_some(), "HTTP/1.1 100 Continue\r\n\r\n");
  ASSERT_TRUE(client.send(R"({"prompt": "a"})"));
  EXPECT_EQ(client.read_response().status, 200);
}

TEST_F(HttpTest, HeadReplyHasNoBodyAndHttp10StreamEndsWithTheConnection) {
  start();
  HttpClient client(port());
  ASSERT_TRUE(client.send("HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n" + get_text("/health")));
  const std::string text = client.read_some() + client.get("/version").body;
  EXPECT_NE(text.find("Content-Length: 15"), std::string::npos);
  HttpClient old(port());
  const std::string body = completion(2, true);
  ASSERT_TRUE(old.send("POST /v1/completions HTTP/1.0\r\nContent-Length: " +
                       std::to_string(body.size()) + "\r\n\r\n" + body));
  std::string all, more;
  while (!(more = old.read_some()).empty()) all += more;
  EXPECT_EQ(all.find("chunked"), std::string::npos);
  EXPECT_TRUE(all.ends_with("data: [DONE]\n\n")) << all;
}

// The error has a body, although the request before it wanted none.
TEST_F(HttpTest, AMalformedRequestAfterHeadIsAnsweredWithABody) {
  start();
  HttpClient client(port());
  ASSERT_TRUE(client.send("HEAD /health HTTP/1.1\r\nHost: x\r\n\r\nhello\r\n\r\n"));
  std::string all, more;
  while (!(more = client.read_some()).empty()) all += more;
  const size_t second = all.find("HTTP/1.1 400 ");
  ASSERT_NE(second, std::string::npos) << all;
  EXPECT_NE(all.find("\r\n\r\n{\"error\":", second), std::string::npos) << all;
}

// The arguments are an object whatever the tool's schema says, even if there is no schema.
TEST_F(HttpTest, ArgumentsOfForcedCallsAreAnObject) {
  start();
  HttpClient client(port());
  TestJson body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
                   {"max_tokens", 200},
                   {"temperature", 1},
                   {"parallel_tool_calls", false}};
  int whole = 0;
  for (const char* parameters :
       {"", "null", "{}", R"({"properties": {"a": {"const": 1}}, "required": ["a"]})",
        R"({"type": ["object", "null"], "properties": {"a": {"const": 1}}})",
        R"({"anyOf": [{"type": "string"}, {"type": "object", "properties": {}}]})",
        R"({"$ref": "#/$defs/f", "$defs": {"f": {"properties": {"a": {"const": 1}}}}})"}) {
    TestJson function = {{"name", "go"}};
    if (*parameters != '\0') function["parameters"] = TestJson::parse(parameters);
    body["tools"] = {{{"type", "function"}, {"function", function}}};
    for (int seed = 0; seed < 4; ++seed) {
      body["seed"] = seed;
      body["tool_choice"] =
          seed % 2 == 0 ? TestJson("required")
                        : TestJson::parse(R"({"type": "function", "function": {"name": "go"}})");
      const TestJson answer =
          TestJson::parse(client.post("/v1/chat/completions", body.dump()).body);
      const TestJson& choice = answer["choices"][0];
      ASSERT_TRUE(choice["message"].contains("tool_calls")) << parameters << answer;
      if (choice["finish_reason"] == "length") continue;
      ++whole;
      const std::string arguments = choice["message"]["tool_calls"][0]["function"]["arguments"];
      EXPECT_TRUE(TestJson::parse(arguments).is_object()) << parameters << answer;
    }
  }
  // At least half of the answers are complete; those without parameters always are.
  EXPECT_GE(whole, 14);
  body["tools"][0]["function"]["parameters"] = {{"type", "string"}};
  EXPECT_EQ(client.post("/v1/chat/completions", body.dump()).status, 400);
}

TEST_F(HttpTest, AnswersObeyTheirSchema) {
  start();
  HttpClient client(port());
  const TestJson schema = TestJson::parse(
      R"({"type": "object", "properties": {"a": {"type": "integer", "minimum": 3, "maximum": 7},
          "b": {"enum": ["x", "y"]}}, "required": ["a", "b"]})");
  TestJson body = {
      {"messages", {{{"role", "user"}, {"content", "Once"}}}},
      {"max_tokens", 100},
      {"seed", 1},
      {"response_format",
       {{"type", "json_schema"}, {"json_schema", {{"name", "s"}, {"schema", schema}}}}}};
  const HttpResponse response = client.post("/v1/chat/completions", body.dump());
  const TestJson choice = TestJson::parse(response.body)["choices"][0];
  const TestJson answer = TestJson::parse(std::string(choice["message"]["content"]));
  EXPECT_EQ(answer.size(), 2u);
  EXPECT_TRUE(answer["a"] >= 3 && answer["a"] <= 7 && (answer["b"] == "x" || answer["b"] == "y"));
  EXPECT_EQ(choice["finish_reason"], "stop");

  body.erase("response_format");
  body["tools"] = {{{"type", "function"}, {"function", {{"name", "go"}, {"parameters", schema}}}}};
  body["tool_choice"] = {{"type", "function"}, {"function", {{"name", "go"}}}};
  const TestJson called = TestJson::parse(client.post("/v1/chat/completions", body.dump()).body);
  const TestJson call = called["choices"][0]["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(call["name"], "go");
  EXPECT_EQ(TestJson::parse(std::string(call["arguments"])).size(), 2u);

  body.erase("tools");
  body.erase("tool_choice");
  body["response_format"] = {{"type", "json_schema"},
                             {"json_schema", {{"name", "s"}, {"schema", {{"$ref", "elsewhere"}}}}}};
  const HttpResponse refused = client.post("/v1/chat/completions", body.dump());
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(error_of(refused)["param"], "response_format");
}

TEST_F(HttpTest, AnswerIsACallOrObeysItsSchema) {
  start();
  HttpClient client(port());
  const TestJson schema = TestJson::parse(
      R"({"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]})");
  TestJson body = {
      {"messages", {{{"role", "user"}, {"content", "Once"}}}},
      {"max_tokens", 200},
      {"temperature", 2},
      {"tools", {{{"type", "function"}, {"function", {{"name", "go"}, {"parameters", schema}}}}}},
      {"response_format",
       {{"type", "json_schema"}, {"json_schema", {{"name", "s"}, {"schema", schema}}}}}};
  int called = 0, answered = 0;
  for (int seed = 0; seed < 30; ++seed) {
    body["seed"] = seed;
    const TestJson answer = TestJson::parse(client.post("/v1/chat/completions", body.dump()).body);
    const TestJson& choice = answer["choices"][0];
    if (choice["finish_reason"] == "length") continue;
    const bool is_call = choice["finish_reason"] == "tool_calls";
    const std::string text = is_call ? choice["message"]["tool_calls"][0]["function"]["arguments"]
                                     : choice["message"]["content"];
    EXPECT_EQ(TestJson::parse(text), TestJson({{"a", 1}})) << answer;
    ++(is_call ? called : answered);
  }
  EXPECT_GT(called, 0);
  EXPECT_GT(answered, 0);
  body["tools"][0]["function"]["parameters"] = {{"$ref", "elsewhere"}};
  const HttpResponse uncalled = client.post("/v1/chat/completions", body.dump());
  EXPECT_EQ(uncalled.status, 200);
  EXPECT_NE(uncalled.header("x-schema-notes").find("nothing can be called"), std::string::npos);
}

// A name with a line end must not add a second header.
TEST_F(HttpTest, HeaderNamesPartsOfASchemaThatAreNotEnforced) {
  start();
  HttpClient client(port());
  TestJson schema = {{"type", "object"}, {"additionalProperties", false}};
  schema["properties"]["a\r\nX-Other: \xC3\xA9"] = {
      {"type", "array"}, {"items", {{"type", "integer"}}}, {"uniqueItems", true}};
  TestJson body = {{"messages", {{{"role", "user"}, {"content", "Once"}}}}, {"max_tokens", 4}};
  body["response_format"] = {{"type", "json_schema"},
                             {"json_schema", {{"name", "s"}, {"schema", schema}}}};
  for (const bool stream : {false, true}) {
    body["stream"] = stream;
    const HttpResponse response = client.post("/v1/chat/completions", body.dump());
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.header("x-other"), "");
    EXPECT_NE(
        response.header("x-schema-notes").find("/properties/a%0D%0AX-Other: %C3%A9/uniqueItems: "),
        std::string::npos)
        << response.header("x-schema-notes");
  }
  body.erase("response_format");
  EXPECT_EQ(client.post("/v1/chat/completions", body.dump()).header("x-schema-notes"), "");
}

TEST_F(HttpTest, HeaderNamesFieldsThatNoServerKnows) {
  start();
  HttpClient client(port());
  TestJson body = {{"messages", {{{"role", "user"}, {"content", "Once"}}}}, {"max_tokens", 4}};
  for (const bool stream : {false, true}) {
    body["stream"] = stream;
    body["user"] = "u";
    EXPECT_EQ(client.post("/v1/chat/completions", body.dump()).header("x-unknown-fields"), "");
    body["temprature"] = 1;
    body["a\r\nX-Other: b"] = 1;
    const HttpResponse response = client.post("/v1/chat/completions", body.dump());
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.header("x-other"), "");
    const std::string names = response.header("x-unknown-fields");
    EXPECT_NE(names.find("temprature"), std::string::npos) << names;
    EXPECT_NE(names.find("a%0D%0AX-Other: b"), std::string::npos) << names;
    body.erase("temprature");
    body.erase("a\r\nX-Other: b");
  }
}

TEST_F(HttpTest, HeadersAndMetricsHaveTheTimesOfASimulatedDevice) {
  parts_.device = "trn1";
  parts_.device_clock = [now = std::make_shared<std::atomic<int>>(0)] { return 0.25 * ++*now; };
  start();
  HttpClient client(port());
  const HttpResponse whole = client.post("/v1/completions", completion(3, false));
  EXPECT_EQ(whole.header("x-predicted-device"), "trn1");
  EXPECT_GT(std::stod(whole.header("x-predicted-first-token-seconds")), 0.2);
  EXPECT_GT(std::stod(whole.header("x-predicted-total-seconds")),
            std::stod(whole.header("x-predicted-first-token-seconds")));
  const HttpResponse stream = client.post("/v1/completions", completion(3, true));
  EXPECT_GT(std::stod(stream.header("x-predicted-first-token-seconds")), 0.2);
  EXPECT_NE(client.get("/metrics").body.find("vllm:predicted_e2e_request_latency_seconds_count"),
            std::string::npos);
}

}  // namespace
}  // namespace neuronmm::serve
