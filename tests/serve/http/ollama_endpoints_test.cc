// Tests Ollama's protocol and the endpoints for embeddings over sockets, as clients use them.

#include "serve/http/served_demo.h"

namespace neuronmm::serve {
namespace {

TestJson last_line(const std::string& body) {
  const size_t end = body.size() - 1;
  return TestJson::parse(body.substr(body.rfind('\n', end - 1) + 1));
}

TEST_F(HttpTest, OllamaPathsAnswer) {
  start();
  HttpClient client(port());
  EXPECT_EQ(TestJson::parse(client.get("/api/version").body)["neuronmm"], "1.2.3");
  const TestJson tags = TestJson::parse(client.get("/api/tags").body);
  EXPECT_EQ(tags["models"][0]["name"], "demo:latest");
  EXPECT_EQ(tags["models"][0]["digest"].get<std::string>().size(), 64u);
  EXPECT_EQ(TestJson::parse(client.get("/api/ps").body)["models"][0]["model"], "demo:latest");
  const TestJson shown =
      TestJson::parse(client.post("/api/show", R"({"model": "demo:latest"})").body);
  EXPECT_EQ(shown["model_info"]["general.basename"], "demo");
  ASSERT_TRUE(client.send("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"));
  HttpClient other(port());
  ASSERT_TRUE(other.send("HEAD /api/tags HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  EXPECT_TRUE(other.read_some().starts_with("HTTP/1.1 200 OK\r\n"));
}

TEST_F(HttpTest, OllamaStreamsAreLinesOfJson) {
  start();
  HttpClient client(port());
  TestJson body = {{"model", "demo"},
                   {"messages", {{{"role", "user"}, {"content", "Once upon a time"}}}},
                   {"options", {{"num_predict", 8}, {"temperature", 0}}}};
  const HttpResponse streamed = client.post("/api/chat", body.dump());
  EXPECT_EQ(streamed.header("content-type"), "application/x-ndjson");
  EXPECT_EQ(last_line(streamed.body)["done_reason"], "length");
  EXPECT_EQ(last_line(streamed.body)["eval_count"], 8);
  body["stream"] = false;
  const HttpResponse whole = client.post("/api/chat", body.dump());
  EXPECT_EQ(whole.header("content-type"), "application/json");
  EXPECT_EQ(TestJson::parse(whole.body)["eval_count"], 8);
  const HttpResponse generated = client.post(
      "/api/generate", R"({"model": "demo", "prompt": "Once", "options": {"num_predict": 4}})");
  EXPECT_EQ(last_line(generated.body)["done"], true);
  const HttpResponse loaded = client.post("/api/generate", R"({"model": "demo"})");
  EXPECT_EQ(loaded.header("content-type"), "application/json");
  EXPECT_EQ(TestJson::parse(loaded.body)["done_reason"], "load");
}

// curl -d says that a JSON body is a form. A page of another site could send the same.
TEST_F(HttpTest, FormsAreReadAsJsonUnlessTheyComeFromAPage) {
  start();
  HttpClient client(port());
  const std::string body = R"({"model": "demo", "prompt": "a", "options": {"num_predict": 1}})";
  const std::string form = "Content-Type: application/x-www-form-urlencoded\r\n";
  EXPECT_EQ(client.post("/api/generate", body, form).status, 200);
  HttpClient page(port());
  EXPECT_EQ(page.post("/api/generate", body, form + "Origin: http://evil.example\r\n").status, 403);
  HttpClient own(port());
  const HttpResponse refused = own.post("/api/generate", body, form + "Origin: http://x\r\n");
  EXPECT_NE(refused.status, 200);
  EXPECT_TRUE(TestJson::parse(refused.body)["error"].is_string());
}

TEST_F(HttpTest, OllamaErrorsAreTexts) {
  listen();
  EXPECT_TRUE(TestJson::parse(HttpClient(port()).get("/api/tags").body)["error"].is_string());
  load();
  const auto error_of = [&](const HttpResponse& response, int status) {
    EXPECT_EQ(response.status, status) << response.body;
    const TestJson error = TestJson::parse(response.body);
    EXPECT_EQ(error.size(), 1u);
    return error["error"].get<std::string>();
  };
  HttpClient client(port());
  EXPECT_EQ(error_of(client.post("/api/chat", "{}"), 400), "model: model is required");
  error_of(client.post("/api/chat", "{"), 400);
  error_of(client.post("/api/generate", R"({"model": "x", "prompt": "a"})"), 404);
  error_of(client.post("/api/embed", R"({"model": "demo", "input": []})"), 400);
  error_of(client.get("/api/other"), 404);
  error_of(client.get("/api/chat"), 405);
  EXPECT_EQ(error_of(client.post("/api/generate",
                                 R"({"model": "demo", "prompt": "a", "options": {"numctx": 1}})"),
                     400),
            "options.numctx: Ollama has no such option");
}

TEST_F(HttpTest, OllamasManagementOfModelsIsRefusedByName) {
  start();
  for (const char* path : {"/api/pull", "/api/push", "/api/create", "/api/copy", "/api/delete",
                           "/api/blobs/sha256:1"}) {
    const HttpResponse response = HttpClient(port()).post(path, R"({"model": "demo"})");
    EXPECT_EQ(response.status, 501);
    const std::string error = TestJson::parse(response.body)["error"];
    EXPECT_TRUE(error.starts_with(std::string(path) + ": not supported")) << error;
  }
  HttpClient client(port());
  ASSERT_TRUE(client.send("DELETE /api/delete HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_EQ(client.read_response().status, 501);
}

TEST_F(HttpTest, KeysProtectOllamaPaths) {
  options_.api_keys = {"secret"};
  start();
  HttpClient client(port());
  for (const char* path : {"/api/tags", "/api/ps", "/api/version"}) {
    EXPECT_EQ(client.get(path).status, 401) << path;
    EXPECT_EQ(client.get(path, "Authorization: Bearer secret\r\n").status, 200) << path;
  }
  EXPECT_EQ(HttpClient(port()).post("/api/pull", "{}").status, 401);
}

TEST_F(HttpTest, EmbeddingsOfAllPathsAreTheSameVector) {
  start();
  HttpClient client(port());
  const auto answer = [&](const char* path, const TestJson& body) {
    const HttpResponse response = client.post(path, body.dump());
    EXPECT_EQ(response.status, 200) << response.body;
    return TestJson::parse(response.body);
  };
  const TestJson openai = answer("/v1/embeddings", {{"input", {"Once upon a time", "The dog"}}});
  const TestJson first = openai["data"][0]["embedding"];
  EXPECT_EQ(first.size(), static_cast<size_t>(transformer_->config().hidden_size));
  EXPECT_NE(openai["data"][1]["embedding"], first);
  double squares = 0.0;
  for (const TestJson& value : first) squares += value.get<double>() * value.get<double>();
  EXPECT_NEAR(squares, 1.0, 1e-5);
  const TestJson text = "Once upon a time";
  EXPECT_EQ(answer("/embeddings", {{"input", text}})["data"][0]["embedding"], first);
  EXPECT_EQ(answer("/embeddings", {{"content", text}})[0]["embedding"][0], first);
  EXPECT_EQ(answer("/embedding", {{"content", text}})[0]["embedding"][0], first);
  EXPECT_EQ(answer("/api/embed", {{"model", "demo"}, {"input", text}})["embeddings"][0], first);
  const TestJson raw =
      answer("/api/embeddings", {{"model", "demo"}, {"prompt", text}})["embedding"];
  EXPECT_NEAR(raw[0].get<double>() / raw[1].get<double>(),
              first[0].get<double>() / first[1].get<double>(), 1e-3);
  const std::string metrics = client.get("/metrics").body;
  EXPECT_NE(metrics.find("request_success_total{"), std::string::npos);
  expect_no_block_in_use();
}

// The inputs are more than the queue takes at a time.
TEST_F(HttpTest, ManyInputsHaveTheirEmbeddingsInOrder) {
  engine_options_.max_queued_requests = 20;
  start();
  HttpClient client(port());
  TestJson inputs = TestJson::array();
  for (int i = 0; i < 300; ++i) inputs.push_back("The " + std::to_string(i % 7));
  const HttpResponse response = client.post("/v1/embeddings", TestJson({{"input", inputs}}).dump());
  ASSERT_EQ(response.status, 200) << response.body;
  const TestJson data = TestJson::parse(response.body)["data"];
  ASSERT_EQ(data.size(), 300u);
  for (size_t i = 0; i < 300; ++i) {
    EXPECT_EQ(data[i]["index"], i);
    EXPECT_EQ(data[i]["embedding"], data[i % 7]["embedding"]) << i;
  }
  EXPECT_NE(data[0]["embedding"], data[1]["embedding"]);
}

TEST_F(HttpTest, EmbeddingsOfAClientThatLeavesAreCancelled) {
  start();
  backend_.hold();
  HttpClient client(port());
  std::string long_text;
  for (int i = 0; i < 300; ++i) long_text += "so ";
  TestJson inputs = TestJson::array();
  for (int i = 0; i < 500; ++i) inputs.push_back(long_text + std::to_string(i));
  ASSERT_TRUE(client.send(post_text("/v1/embeddings", TestJson({{"input", inputs}}).dump())));
  backend_.step();
  client.close();
  backend_.release();
  wait_for_requests(0, 0);
  // All inputs together take more than 1,000 steps.
  EXPECT_LT(backend_.tokens_of_steps().size(), 700u);
  expect_no_block_in_use();
}

}  // namespace
}  // namespace neuronmm::serve
