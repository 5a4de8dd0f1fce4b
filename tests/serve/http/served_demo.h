#pragma once
// The fixture of the server's tests: the first layer of the demo model behind a server, with a chat
// template. A test can halt the engine before a step, and can wait until requests have reached the
// engine.

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cpu/backend.h"
#include "places.h"
#include "serve/engine/engine_support.h"
#include "serve/http/http_client.h"
#include "serve/http/serve_settings.h"

namespace neuronmm::serve {

using TestJson = nlohmann::json;

// Creates the server on a free port. Tests change the options before start().
class HttpTest : public testing::Test {
 protected:
  HttpTest() {
    parts_.metrics_prefix = ServeSettings().metrics_prefix;
    options_.port = 0;
    options_.version = "1.2.3";
    options_.allowed_hosts = {"x"};  // the name that requests of tests have
    options_.limits.tick = std::chrono::milliseconds(5);
  }
  ~HttpTest() override {
    backend_.release();
    server_.reset();
    engine_.reset();
    std::filesystem::remove_all(folder_);
  }

  void start() {
    listen();
    load();
  }
  void listen() {
    auto server = Server::start(options_);
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(server).value();
  }
  void load() {
    make_folder();
    auto tokenizer = text::Tokenizer::load(folder_);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    tokenizer_ = std::make_unique<text::Tokenizer>(std::move(tokenizer).value());
    auto transformer = model::Transformer::load(folder_, backend_);
    ASSERT_TRUE(transformer.ok()) << transformer.error().message;
    transformer_ = std::make_unique<model::Transformer>(std::move(transformer).value());
    engine_ = std::make_unique<Engine>(*transformer_, engine_options_);
    ServiceParts parts = parts_;
    parts.engine = engine_.get();
    parts.model.names = {"demo"};
    parts.model.tokenizer = tokenizer_.get();
    parts.model.vocab_size = transformer_->config().vocab_size;
    parts.model.context_tokens = transformer_->config().max_position_embeddings;
    parts.model.stop_tokens = {2047};
    parts.description_json = R"({"model":"demo"})";
    describe_templates(parts.model);
    server_->serve(std::make_shared<GenerationService>(std::move(parts)));
  }

  int port() const { return server_->port(); }
  void expect_no_block_in_use() { serve::expect_no_block_in_use(*engine_); }
  // Waits until the engine has this many requests; fails after some seconds.
  void wait_for_requests(int64_t running, int64_t waiting) {
    for (int i = 0; i < 5000; ++i) {
      const Statistics now = engine_->statistics();
      if (now.running == running && now.waiting == waiting) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    FAIL() << "expected " << running << " running and " << waiting << " waiting requests";
  }

  ServerOptions options_;
  EngineOptions engine_options_;
  ServiceParts parts_;
  SteppedBackend backend_{cpu::make_backend()};
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<model::Transformer> transformer_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Server> server_;

 private:
  void make_folder() {
    folder_ =
        std::filesystem::path(testing::TempDir()) / ("neuronmm-http-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"})
      std::filesystem::create_symlink(one_layer_model() / name, folder_ / name);
    std::ifstream file(one_layer_model() / "tokenizer_config.json");
    TestJson config = TestJson::parse(file);
    config["chat_template"] =
        "{% if tools %}<tool_call>{{ tools | tojson }}{% endif %}"
        "{% for m in messages %}{{ m.content }}\n{% endfor %}"
        "{% if opens_thoughts %}<think>\n{% endif %}";
    std::ofstream(folder_ / "tokenizer_config.json") << config;
  }

  std::filesystem::path folder_;
};

// Returns the body of a request whose prompt the model continues for a long time.
inline std::string completion(int64_t max_tokens, bool stream) {
  return TestJson({{"prompt", "Once upon a time"},
                   {"max_tokens", max_tokens},
                   {"temperature", 0},
                   {"ignore_eos", true},
                   {"stream", stream}})
      .dump();
}

// Returns the error object of a response and checks that it has OpenAI's fields.
inline TestJson error_of(const HttpResponse& response) {
  const TestJson body = TestJson::parse(response.body, nullptr, false);
  EXPECT_TRUE(body.is_object() && body.contains("error")) << response.body;
  if (!body.is_object() || !body.contains("error")) return TestJson::object();
  for (const char* field : {"message", "type", "param", "code"})
    EXPECT_TRUE(body["error"].contains(field)) << response.body;
  return body["error"];
}

}  // namespace neuronmm::serve
