// Tests requests that are wrong, too large, too slow or not allowed. Each gets a 4xx error in
// OpenAI's format, or its connection is closed.

#include "serve/http/served_demo.h"

namespace neuronmm::serve {
namespace {

struct BadBody {
  const char *path, *body;
  int status;
  const char *param, *code;  // nullptr stands for null
};

TEST_F(HttpTest, ErrorForABadBodyNamesTheFieldAndTheFault) {
  start();
  HttpClient client(port());
  const std::string deep = std::string(2000, '[') + std::string(2000, ']');
  const std::string long_prompt = R"({"prompt": ")" + std::string(20'000, 'x') + R"("})";
  const std::string long_key =
      "{\"" + std::string(100'000, 'k') + "\": 1, \"" + std::string(100'000, 'k') + "\": 1}";
  const std::string long_number = "{\"prompt\": \"a\", \"n\": " + std::string(100'000, '9') + "}";
  const char* const chat = "/v1/chat/completions";
  const char* const text = "/v1/completions";
  const BadBody bodies[] = {
      {chat, "", 400, nullptr, nullptr},
      {chat, "{", 400, nullptr, nullptr},
      {chat, "[]", 400, nullptr, nullptr},
      {chat, "{\"messages\": \"\xff\"}", 400, nullptr, nullptr},
      {chat, deep.c_str(), 400, nullptr, nullptr},
      {text, R"({"prompt": "a", "temperature": 1e999})", 400, nullptr, nullptr},
      {text, long_key.c_str(), 400, nullptr, nullptr},
      {text, long_number.c_str(), 400, nullptr, nullptr},
      {chat, R"({"messages": []})", 400, "messages", nullptr},
      {chat, R"({"messages": [{"role": "<|end|>", "content": "a"}]})", 400, "messages[0].role",
       nullptr},
      {chat, R"({"messages": [{"role": "user", "content": null}]})", 400, "messages[0].content",
       nullptr},
      {chat, R"({"messages": [{"role": "user", "content": "a"}], "stream_options": 1})", 400,
       "stream_options", nullptr},
      {text, R"({"prompt": "a", "best_of": 2})", 400, "best_of", nullptr},
      {text, R"({"prompt": []})", 400, "prompt", nullptr},
      {chat, R"({"messages": 3})", 400, "messages", nullptr},
      {chat, R"({"messages": [{"role": "user", "content": 3}]})", 400, "messages[0].content",
       nullptr},
      {text, R"({"prompt": "a", "n": 129})", 400, "n", nullptr},
      {text, R"({"prompt": "a", "max_tokens": -2})", 400, "max_tokens", nullptr},
      {text, R"({"prompt": "a", "logprobs": 21})", 400, "logprobs", nullptr},
      {text, R"({"prompt": "a", "model": "gpt"})", 404, "model", "model_not_found"},
      {text, R"({"prompt": [99999]})", 400, "prompt", nullptr},
      {text, long_prompt.c_str(), 400, "prompt", "context_length_exceeded"},
      {"/detokenize", R"({"tokens": "a"})", 400, "tokens", nullptr},
  };
  for (const BadBody& bad : bodies) {
    SCOPED_TRACE(std::string(bad.body).substr(0, 80));
    const HttpResponse response = client.post(bad.path, bad.body);
    EXPECT_EQ(response.status, bad.status) << response.body;
    EXPECT_LT(response.body.size(), 3000u);  // the error does not repeat the body
    const TestJson error = error_of(response);
    const TestJson param = error["param"];
    if (bad.param != nullptr) {
      EXPECT_TRUE(param.is_string() && std::string(param).starts_with(bad.param)) << response.body;
    }
    EXPECT_EQ(error["code"], bad.code == nullptr ? TestJson() : TestJson(bad.code));
  }
  EXPECT_EQ(client.get("/health").status, 200);  // the connection is still usable
}

TEST_F(HttpTest, MalformedHttpIsRefusedAndTheConnectionEnds) {
  options_.limits.header_bytes = 2048;
  options_.limits.body_bytes = 1000;
  options_.limits.linger = std::chrono::milliseconds(50);
  start();
  const std::pair<std::string, int> requests[] = {
      {"hello\r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\n\r\n", 400},  // Host is missing
      {"GET /health HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\nHost: x\r\nX-Request-Id: a\rb: c\r\n\r\n", 400},
      {"GET /health HTTP/3.0\r\nHost: x\r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\nHost: x\r\nExpect: a miracle\r\n\r\n", 417},
      {"GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(4000, 'a') + "\r\n\r\n", 431},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", 413},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: "
       "chunked\r\n\r\n{}",
       400},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
       400},
      // A proxy in front of the server may take the rest of these requests for a body; the server
      // must not take it for the next request.
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
       400},
      {"POST /tokenize HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
           std::string(100'000, 'a') + "\r\n{\r\n0\r\n\r\n",
       400},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n", 400},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
       "chunked\r\n\r\nfffffffffffffffff\r\n",
       400},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
           std::string(2000, ' ') + "\r\n0\r\n\r\n",
       413},
  };
  for (const auto& [text, status] : requests) {
    SCOPED_TRACE(text.substr(0, 100));
    HttpClient client(port());
    client.send(text);
    const HttpResponse response = client.read_response();
    EXPECT_EQ(response.status, status) << response.body;
    error_of(response);
    if (status != 417 && text.find("Host") != std::string::npos) {
      EXPECT_EQ(response.header("connection"), "close");
      EXPECT_TRUE(client.closed_by_server());
    }
  }
  HttpClient truncated(port());
  truncated.send("POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{");
  truncated.close();
  EXPECT_EQ(HttpClient(port()).get("/health").status, 200);
}

// The broken line must be found wherever the bytes are cut. A server that waits for the missing
// line end would answer 408 after its time limit.
TEST_F(HttpTest, BrokenLinesAreRefusedAtOnce) {
  options_.limits.linger = std::chrono::milliseconds(20);
  start();
  const std::string get = "GET /health HTTP/1.1\r\nHost: x\r\n";
  const std::string post = "POST /tokenize HTTP/1.1\r\nHost: x\r\n";
  const std::string chunks = post + "Transfer-Encoding: chunked\r\n\r\n";
  const std::string data = "f\r\n{\"prompt\": \"a\"}\r\n";
  const std::string requests[] = {
      "GET /health HTTP/1.1\nHost: x\n\n",
      "GET /health HTTP/1.1\rHost: x\r\r",
      "GET /health\r\n",
      "GET /health\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      get + "\n",
      get + "A: b\nB: c\r\n\r\n",
      get + "A: b\r\n c\r\n\r\n",
      get + "A: a" + std::string(1, '\0') + "b\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: a b\r\n\r\n",
      post + "Transfer-Encoding:\r\n chunked\r\n\r\n" + data + "0\r\n\r\n",
      post + "Transfer-Encoding:\r\nContent-Length: 15\r\n\r\n{\"prompt\": \"a\"}",
      chunks + "f\n{\"prompt\": \"a\"}\r\n0\r\n\r\n",
      chunks + "f\n{\"prompt\": \"a\"}\n0\n\n",
      chunks + "f;a\n{\"prompt\": \"a\"}\r\n0\r\n\r\n",
      chunks + "f\r{\"prompt\": \"a\"}\r\n0\r\n\r\n",
      chunks + "f\r\n{\"prompt\": \"a\"}\n0\r\n\r\n",
      chunks + "f\r\n{\"prompt\": \"a\"}0\r\n\r\n",
      chunks + "-f\r\n",
      chunks + data + "0\n\r\n",
      chunks + data + "0\r\n\n",
      chunks + data + "0\r\nA: b\n\r\n",
      chunks + data + "0\r\nContent-Length: 3\r\n\r\n",
      chunks + "f;" + std::string(20'000, 'a'),
      chunks + data + "0\r\nA: " + std::string(20'000, 'a'),
  };
  for (const std::string& text : requests) {
    for (const size_t piece : {text.size(), size_t{1}}) {
      SCOPED_TRACE(TestJson(text.substr(0, 150)).dump() + " in pieces of " + std::to_string(piece));
      HttpClient client(port());
      for (size_t at = 0; at < text.size() && client.send(text.substr(at, piece)); at += piece) {
      }
      const HttpResponse response = client.read_response();
      EXPECT_EQ(response.status, 400) << response.body;
      error_of(response);
    }
  }
}

TEST_F(HttpTest, RequestsMayComeInTwoPiecesCutAnywhere) {
  start();
  const std::string text =
      "POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "f\r\n{\"prompt\": \"a\"}\r\n0\r\nA: b\r\n\r\n";
  HttpClient client(port());
  for (size_t cut = 1; cut < text.size(); ++cut) {
    SCOPED_TRACE(cut);
    ASSERT_TRUE(client.send(text.substr(0, cut)));
    std::this_thread::sleep_for(
        std::chrono::milliseconds(3));  // the server mostly reads the first piece alone
    ASSERT_TRUE(client.send(text.substr(cut)));
    ASSERT_EQ(client.read_response().status, 200);
  }
}

TEST_F(HttpTest, ChunkExtensionsAndTrailersAreIgnored) {
  start();
  HttpClient client(port());
  const std::string head =
      "POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string data = "{\"prompt\": \"a\"}\r\n";
  for (const std::string& body :
       {"f\r\n" + data + "0\r\n\r\n", "00f;a=\"b;c\"\r\n" + data + "0;d\r\n\r\n",
        "F\r\n" + data + "0\r\nX-Request-Id: of-the-trailer\r\nHost: y\r\n\r\n"}) {
    ASSERT_TRUE(client.send(head + body));
    const HttpResponse response = client.read_response();
    EXPECT_EQ(response.status, 200) << body;
    EXPECT_NE(response.header("x-request-id"), "of-the-trailer");
  }
}

TEST_F(HttpTest, ExpectHeaderIsIgnoredInHttp10) {
  start();
  HttpClient client(port());
  client.send(
      "POST /tokenize HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 15\r\n\r\n"
      "{\"prompt\": \"a\"}");
  EXPECT_EQ(client.read_response().status, 200);
}

TEST_F(HttpTest, CompressedBodiesAreRefusedWith415) {
  start();
  const HttpResponse response =
      HttpClient(port()).post("/tokenize", "\x1f\x8b", "Content-Encoding: gzip\r\n");
  EXPECT_EQ(response.status, 415);
  EXPECT_NE(std::string(error_of(response)["message"]).find("Content-Encoding"), std::string::npos);
}

TEST_F(HttpTest, UnknownPathsAndMethodsAreRefused) {
  start();
  HttpClient client(port());
  EXPECT_EQ(client.get("/nothing").status, 404);
  const HttpResponse wrong = client.get("/v1/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.header("allow"), "POST, OPTIONS");
  EXPECT_EQ(client.post("/health", "").status, 405);
}

TEST_F(HttpTest, SlowRequestsGet408AndIdleConnectionsAreClosed) {
  options_.limits.header = options_.limits.body = std::chrono::milliseconds(60);
  options_.limits.idle = std::chrono::milliseconds(60);
  options_.limits.linger = std::chrono::milliseconds(20);
  start();
  HttpClient slow_head(port()), slow_body(port()), idle(port());
  slow_head.send("GET /health HTT");
  slow_body.send("POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{");
  EXPECT_EQ(slow_head.read_response().status, 408);
  EXPECT_EQ(slow_body.read_response().status, 408);
  EXPECT_TRUE(slow_head.closed_by_server());
  EXPECT_TRUE(slow_body.closed_by_server());
  EXPECT_EQ(idle.read_response().status, 0);
}

TEST_F(HttpTest, KeysAreNeededExceptForOpenEndpoints) {
  options_.api_keys = {"first", "second"};
  start();
  HttpClient client(port());
  for (const char* path : {"/", "/health", "/ready", "/metrics", "/openapi.json"})
    EXPECT_EQ(client.get(path).status, 200);
  for (const char* path : {"/v1/models", "/v1/model", "/version", "/nothing"}) {
    const HttpResponse response = client.get(path);
    EXPECT_EQ(response.status, 401);
    EXPECT_EQ(error_of(response)["code"], "invalid_api_key");
    EXPECT_EQ(response.header("www-authenticate"), "Bearer");
  }
  for (const char* key : {"first", "second"})
    EXPECT_EQ(client.get("/v1/models", std::string("Authorization: bearer ") + key + "\r\n").status,
              200);
  for (const char* header : {"Bearer firs", "Bearer firstt", "first", "Basic first", "Bearer"})
    EXPECT_EQ(client.get("/v1/models", std::string("Authorization: ") + header + "\r\n").status,
              401);
  EXPECT_EQ(client.get("/v1/models", "X-Api-Key: second\r\n").status, 200);
  EXPECT_EQ(client.get("/v1/models", "X-Api-Key: secon\r\n").status, 401);
  EXPECT_EQ(HttpClient(port()).post("/v1/completions", completion(2, false)).status, 401);
}

TEST_F(HttpTest, CorsHeadersAreSentOnlyToAllowedOrigins) {
  options_.cors_origins = {"https://good.example"};
  options_.api_keys = {"key"};
  start();
  HttpClient client(port());
  const HttpResponse good = client.get("/health", "Origin: https://good.example\r\n");
  EXPECT_EQ(good.header("access-control-allow-origin"), "https://good.example");
  EXPECT_EQ(good.header("vary"), "Origin");
  EXPECT_EQ(client.get("/health", "Origin: https://bad.example\r\n")
                .header("access-control-allow-origin"),
            "");
  ASSERT_TRUE(client.send(
      "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\nOrigin: https://good.example\r\n"
      "Access-Control-Request-Method: POST\r\n\r\n"));
  const HttpResponse preflight = client.read_response();
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.header("access-control-allow-methods"), "POST, OPTIONS");
}

TEST_F(HttpTest, NoCorsHeadersWithoutConfiguredOrigins) {
  start();
  for (const auto& [name, value] :
       HttpClient(port()).get("/health", "Origin: https://good.example\r\n").headers)
    EXPECT_FALSE(name.starts_with("access-control"));
}

TEST_F(HttpTest, RequestIdsAreRepeatedIfTheyAreSafeInHeaders) {
  start();
  HttpClient client(port());
  EXPECT_EQ(client.get("/health", "X-Request-Id: my-id_1.2:3\r\n").header("x-request-id"),
            "my-id_1.2:3");
  for (const std::string& bad : {std::string("a b"), std::string("\xc3\xa9"), std::string("a\tb"),
                                 std::string(129, 'a'), std::string("a,b")}) {
    const std::string id =
        client.get("/health", "X-Request-Id: " + bad + "\r\n").header("x-request-id");
    EXPECT_TRUE(id.starts_with("req-") && id.size() == 20) << id;
  }
}

// Connections that wait for their answers are not closed for the sake of new ones.
TEST_F(HttpTest, ConnectionsBeyondTheLimitAreRefused) {
  options_.limits.connections = 2;
  backend_.hold();
  start();
  HttpClient first(port()), second(port());
  first.send(post_text("/v1/completions", completion(4, false)));
  wait_for_requests(1, 0);
  second.send(post_text("/v1/completions", completion(4, false)));
  wait_for_requests(1, 1);
  HttpClient third(port());
  const HttpResponse refused = third.read_response();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(error_of(refused)["code"], "too_many_connections");
  backend_.release();
  EXPECT_EQ(first.read_response().status, 200);
  EXPECT_EQ(second.read_response().status, 200);
}

TEST_F(HttpTest, LargeBodiesShareALimitAndSmallOnesAreAlwaysRead) {
  options_.limits.held_bytes = 4000;
  options_.limits.brief_bytes = 200;
  start();
  HttpClient client(port());
  const HttpResponse refused = client.post("/tokenize", std::string(1001, ' '));
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(HttpClient(port()).post("/tokenize", std::string(900, ' ')).status, 400);
  EXPECT_EQ(HttpClient(port()).post("/tokenize", R"({"prompt": "a"})").status, 200);
}

TEST_F(HttpTest, TextsToTokenizeHaveALimitOfTheirOwn) {
  options_.limits.tokenizer_body_bytes = 100;
  start();
  HttpClient client(port());
  const std::string announced = "Content-Length: 101\r\n\r\n";
  for (const char* path :
       {"/tokenize", "/detokenize", "/apply-template", "/v1/messages/count_tokens"}) {
    HttpClient other(port());
    other.send(fmt::format("POST {} HTTP/1.1\r\nHost: x\r\n{}", path, announced));
    const HttpResponse refused = other.read_response();
    EXPECT_EQ(refused.status, 413) << path;
    EXPECT_NE(refused.body.find("100"), std::string::npos) << refused.body;
  }
  const std::string prompt(200, 'a');
  EXPECT_EQ(client.post("/v1/completions", TestJson({{"prompt", prompt}, {"max_tokens", 1}}).dump())
                .status,
            200);
}

TEST_F(HttpTest, FullQueueAnswers429WithRetryAfter) {
  engine_options_.max_sequences = 1;
  engine_options_.max_queued_requests = 1;
  backend_.hold();
  start();
  HttpClient running(port()), waiting(port()), refused(port());
  running.send(post_text("/v1/completions", completion(4, false)));
  wait_for_requests(1, 0);
  waiting.send(post_text("/v1/completions", completion(4, false)));
  wait_for_requests(1, 1);
  const HttpResponse response = refused.post("/v1/completions", completion(4, false));
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(error_of(response)["code"], "queue_full");
  EXPECT_EQ(response.header("retry-after"), "1");
  backend_.release();
  EXPECT_EQ(running.read_response().status, 200);
  EXPECT_EQ(waiting.read_response().status, 200);
}

TEST(HttpServer, StartErrorNamesTheUsedPortOrTheMissingFile) {
  ServerOptions options;
  options.port = 0;
  const auto first = Server::start(options);
  ASSERT_TRUE(first.ok());
  options.port = (*first)->port();
  const auto second = Server::start(options);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("in use"), std::string::npos) << second.error().message;
  options.tls_certificate = "/nowhere/cert.pem";
  options.tls_key = "/nowhere/key.pem";
  const auto without_files = Server::start(options);
  ASSERT_FALSE(without_files.ok());
  EXPECT_NE(without_files.error().message.find("/nowhere/cert.pem"), std::string::npos);
}

}  // namespace
}  // namespace neuronmm::serve
