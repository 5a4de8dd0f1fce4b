// Commands on random models that are mixtures of experts: those that treat them, and those that
// refuse them by name.

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <signal.h>

#include "io/small_adapter.h"
#include "run_program.h"
#include "serve/http/http_client.h"

namespace {

namespace fs = std::filesystem;
using neuronmm::apps::expect;
using neuronmm::apps::kDemo;
using neuronmm::apps::neuronmm;
using neuronmm::apps::read;

class MixtureCommand : public neuronmm::apps::ProgramTest {
 protected:
  // Synthesizes a model with the vocabulary of the bundled one.
  void SetUp() override {
    ProgramTest::SetUp();
    write_config("[1]");
    make("model", "");
  }
  void write_config(const std::string& dense_layers, int neurons = 48) {
    config_ = write("config.json", R"({"architectures":["Qwen3MoeForCausalLM"],"hidden_size":64,
        "intermediate_size":96,"num_hidden_layers":3,"num_attention_heads":4,"head_dim":16,
        "num_key_value_heads":2,"vocab_size":2048,"max_position_embeddings":128,"num_experts":5,
        "num_experts_per_tok":2,"norm_topk_prob":true,"initializer_range":0.2,
        "moe_intermediate_size":)" + std::to_string(neurons) +
                                       R"(,"mlp_only_layers":)" + dense_layers + "}");
  }
  void make(const std::string& out, const std::string& more) const {
    expect(neuronmm("synthesize --config " + config_ + " -o " + path(out) + more), 0, {});
    fs::copy(kDemo + "/tokenizer.json", path(out));
  }
  // Synthesizes a model in the folder oss. Its class stacks the experts of a layer in one tensor.
  void make_gpt_oss() {
    config_ = write("oss.json", R"({"architectures":["GptOssForCausalLM"],"model_type":"gpt_oss",
        "attention_bias":true,"head_dim":16,"hidden_act":"silu","hidden_size":64,
        "initializer_range":0.2,"intermediate_size":96,"max_position_embeddings":128,
        "layer_types":["sliding_attention","full_attention"],"num_attention_heads":4,
        "num_experts_per_tok":2,"num_hidden_layers":2,"num_key_value_heads":2,
        "num_local_experts":5,"rms_norm_eps":1e-5,"sliding_window":128,"swiglu_alpha":1.702,
        "rope_parameters":{"rope_type":"default","rope_theta":10000.0},"swiglu_limit":7.0,
        "tie_word_embeddings":false,"vocab_size":2048})");
    make("oss", "");
  }
  std::string text() const { return kDemo + "/calibration.txt --calibration-tokens 800"; }

  std::string config_;
};

TEST_F(MixtureCommand, RunsAndIsInspected) {
  const std::string model = path("model");
  expect(neuronmm("inspect " + model + " --processes 2 --json " + path("i.json")), 0,
         {"5, 2 per token, 48 neurons each in 2 of 3 layers", "5 x 48 neurons", "96 neurons"});
  const auto json = nlohmann::json::parse(read(path("i.json")));
  EXPECT_EQ(json["num_experts"], 5);
  EXPECT_EQ(json["layers"][0]["experts"], 5);
  EXPECT_EQ(json["layers"][0]["kept_share"], 1.0);
  EXPECT_FALSE(json["layers"][1].contains("experts"));
  expect(neuronmm("generate " + model + " --prompt Once --max-new-tokens 6"), 0, {});
  expect(neuronmm("bench " + model + " --prompt-tokens 8 --new-tokens 4 --runs 1"), 0, {});
}

// Rounded experts say nearly what the floats say, and a random folder of the same bits runs, too.
TEST_F(MixtureCommand, IsRoundedToNearest) {
  for (const std::string bits : {"8", "6", "4"}) {
    const std::string out = path("q" + bits), random = path("r" + bits);
    expect(neuronmm("quantize " + path("model") + " -o " + out + " --bits " + bits), 0, {});
    expect(neuronmm("generate " + out + " --prompt Once --max-new-tokens 4"), 0, {});
    make("r" + bits, " --bits " + bits);
    expect(neuronmm("inspect " + random), 0, {bits == "8" ? "int8" : "bits"});
    expect(neuronmm("generate " + random + " --prompt Once --max-new-tokens 4"), 0, {});
    EXPECT_EQ(fs::file_size(out + "/model.safetensors"),
              fs::file_size(random + "/model.safetensors"));
  }
  expect(neuronmm("perplexity " + path("q8") + " " + kDemo + "/evaluation.txt --reference " +
                  path("model") + " --limit 2"),
         0, {"KL"});
}

TEST_F(MixtureCommand, IsRoundedByAText) {
  for (const std::string bits : {"8", "4"}) {
    const std::string out = path("t" + bits);
    expect(neuronmm("quantize " + path("model") + " -o " + out + " --bits " + bits +
                    " --calibration " + text()),
           0, {});
    expect(neuronmm("generate " + out + " --prompt Once --max-new-tokens 4"), 0, {});
  }
}

TEST_F(MixtureCommand, BecomesSmaller) {
  const std::string model = path("model"), json = path("c.json");
  const std::string with_text = " --block 8 --ratio 0.25 --calibration " + text();
  expect(neuronmm("compress " + model + " --dry-run --ratio 0.25"), 0,
         {"allocate            predicted", "69120 of 92160 parameters"});
  expect(neuronmm("compress " + model + " -o " + path("a") + with_text + " --json " + json), 0,
         {"form mixed", "least use", "output", "KL"});
  const auto report = nlohmann::json::parse(read(json));
  EXPECT_EQ(report["form"], "mixed");
  EXPECT_EQ(report["allocate"], "predicted");
  ASSERT_EQ(report["experts"].size(), 3u);
  EXPECT_EQ(report["experts"][0].size(), 5u);
  EXPECT_TRUE(report["experts"][1].empty()) << "the layer is dense";
  EXPECT_EQ(report["bases"].size(), 3u);
  expect(neuronmm("inspect " + path("a")), 0, {"48 neurons each", "96 neurons"});
  expect(neuronmm("compress " + model + " -o " + path("d") + with_text + " --form neurons"), 0,
         {"form neurons"});
  expect(neuronmm("inspect " + path("d")), 0, {"at most 48 neurons each", "96 neurons"});
  expect(neuronmm("generate " + path("a") + " --prompt Once --max-new-tokens 4"), 0, {});
  expect(neuronmm("compress " + model + " -o " + path("b") + with_text + " --allocate uniform"), 0,
         {"form neurons"});
  expect(neuronmm("inspect " + path("b")), 0, {"5, 2 per token, 32 neurons each"});
  expect(neuronmm("compress " + model + " -o " + path("c") + with_text + " --form experts"), 0,
         {"form experts"});
  expect(neuronmm("inspect " + path("c")), 0, {"4, 2 per token, 48 neurons each"});
  expect(neuronmm("generate " + path("c") + " --prompt Once --max-new-tokens 4"), 0, {});
}

// The second layer is dense and has no bases. Other programs cannot load the rest.
TEST_F(MixtureCommand, GetsSharedBases) {
  const std::string model = path("model"), json = path("c.json");
  expect(
      neuronmm("compress " + model + " -o " + path("a") + " --form basis --block 8 --ratio 0.25" +
               " --calibration " + text() + " --json " + json),
      0, {"form basis", "input   output", "KL"});
  const auto report = nlohmann::json::parse(read(json));
  EXPECT_EQ(report["form"], "basis");
  EXPECT_TRUE(report["bases"][1]["input"].is_null() && report["bases"][1]["output"].is_null());
  expect(neuronmm("inspect " + path("a") + " --processes 2"), 0,
         {"shared bases", "5, 2 per token, 48 neurons each", "form basis"});
  const std::string card = read(path("a") + "/README.md");
  EXPECT_NE(card.find("shared bases"), std::string::npos);
  EXPECT_EQ(card.find("trust_remote_code"), std::string::npos) << "no code is in the folder";
  const std::string generate = " --prompt Once --max-new-tokens 8 --temperature 0";
  expect(neuronmm("generate " + path("a") + generate), 0, {});
  for (const std::string bits : {"8", "6", "4"}) {
    const std::string out = path("q" + bits);
    expect(neuronmm("quantize " + path("a") + " -o " + out + " --bits " + bits), 0, {});
    expect(neuronmm("generate " + out + generate), 0, {});
  }
  expect(
      neuronmm("quantize " + path("a") + " -o " + path("t") + " --bits 4 --calibration " + text()),
      0, {});
  expect(neuronmm("generate " + path("t") + generate), 0, {});
}

TEST_F(MixtureCommand, NamesExpertsThatTheTextHardlyReaches) {
  expect(neuronmm("compress " + path("model") + " -o " + path("out") +
                  " --ratio 0.25 --block 8 --calibration " + kDemo +
                  "/calibration.txt --calibration-tokens 100"),
         0, {"judged by their layer, too: layer 0: "});
}

// The file has the same weights. llama.cpp knows no mixtures of which some layers are dense.
TEST_F(MixtureCommand, IsWrittenToAGgufFile) {
  const std::string out = path("m.gguf"), to_file = " --target gguf --type BF16 -o " + out;
  expect(neuronmm("export " + path("model") + to_file), 1,
         {"layer 1 has one MLP", "llama.cpp has experts in all"});
  write_config("[]");
  make("all", "");
  EXPECT_FALSE(fs::exists(out));
  expect(neuronmm("export " + path("all") + to_file), 0, {"qwen3moe as BF16"});
  const std::string generate = " --prompt Once --max-new-tokens 12 --temperature 0";
  EXPECT_EQ(neuronmm("generate " + out + generate, "", "/dev/null").output,
            neuronmm("generate " + path("all") + generate, "", "/dev/null").output);
  expect(neuronmm("export " + path("all") + " --target gguf --type Q4_0 --force -o " + out), 0,
         {"qwen3moe as Q4_0"});
  expect(neuronmm("generate " + out + generate), 0, {});
  // Experts of their own sizes are padded there, and the command says what that costs.
  expect(neuronmm("compress " + path("all") + " -o " + path("small") +
                  " --form neurons --block 8 --ratio 0.25 --calibration " + text()),
         0, {"form neurons"});
  expect(neuronmm("export " + path("small") + to_file + " --force"), 0,
         {"one size for all experts", "% more weights in MLPs"});
  EXPECT_EQ(neuronmm("generate " + out + generate, "", "/dev/null").output,
            neuronmm("generate " + path("small") + generate, "", "/dev/null").output);
  // Bases are multiplied out there.
  expect(neuronmm("compress " + path("all") + " -o " + path("bases") +
                  " --form basis --block 8 --ratio 0.25 --calibration " + text()),
         0, {"form basis"});
  expect(neuronmm("export " + path("bases") + " --target gguf --type F32 --force -o " + out), 0,
         {"shared bases are multiplied out", "save nothing"});
  EXPECT_EQ(neuronmm("generate " + out + generate, "", "/dev/null").output,
            neuronmm("generate " + path("bases") + generate, "", "/dev/null").output);
}

// Each expert is rounded by the tokens that choose it. The file is then nearer to the model than
// one whose values go to the nearest ones.
TEST_F(MixtureCommand, IsRoundedByATextInAGgufFile) {
  write_config("[]", 64);  // rows of down are whole blocks, too
  make("all", "");
  const auto kl = [&](const std::string& name, const std::string& more) {
    const std::string out = path(name), json = path("kl.json");
    expect(neuronmm("export " + path("all") + " --target gguf --type Q4_0 -o " + out + more), 0,
           {"qwen3moe as Q4_0"});
    expect(neuronmm("perplexity " + out + " " + kDemo + "/evaluation.txt --limit 4 --reference " +
                    path("all") + " --activations fp32 --json " + json),
           0, {});
    return nlohmann::json::parse(read(json))["kl"].get<double>();
  };
  const double nearest = kl("nearest.gguf", ""),
               by_text = kl("by_text.gguf", " --calibration " + text());
  EXPECT_LT(by_text, nearest);
}

// Experts of their own sizes get neurons of zeros, which change no output.
TEST_F(MixtureCommand, IsPaddedForOtherPrograms) {
  const std::string small = path("small"), out = path("padded"), json = path("p.json");
  const std::string generate = " --prompt Once --max-new-tokens 12 --temperature 0";
  for (const std::string form : {"neurons", "basis"}) {
    expect(neuronmm("compress " + path("model") + " -o " + small + " --force --form " + form +
                    " --block 8 --ratio 0.25 --calibration " + text()),
           0, {("form " + form).c_str()});
    expect(neuronmm("export " + small + " --target padded --force -o " + out + " --json " + json),
           0, {"Qwen3MoeForCausalLM"});
    const auto report = nlohmann::json::parse(read(json));
    EXPECT_EQ(report["expert_neurons"], 48);
    EXPECT_EQ(report["zeros"] > 0, form == "neurons");
    expect(neuronmm("inspect " + out), 0, {"5, 2 per token, 48 neurons each in 2 of 3 layers"});
    EXPECT_EQ(neuronmm("generate " + out + generate, "", "/dev/null").output,
              neuronmm("generate " + small + generate, "", "/dev/null").output);
  }
}

// The experts of gpt-oss have biases, which lie in the basis of the outputs.
TEST_F(MixtureCommand, SharedBasesKeepBiases) {
  make_gpt_oss();
  const std::string out = path("m.gguf"), small = path("small"), json = path("kl.json");
  expect(neuronmm("compress " + path("oss") + " -o " + small +
                  " --form basis --block 8 --ratio 0.3 --calibration " + text()),
         0, {"form basis"});
  expect(neuronmm("export " + small + " --target gguf --type F32 -o " + out), 0,
         {"shared bases are multiplied out"});
  // The folder is in bf16 and the file in fp32, so that keys and values are rounded in one of them.
  // Without its biases the model diverges by .08.
  expect(neuronmm("perplexity " + out + " " + kDemo + "/evaluation.txt --limit 1 --reference " +
                  small + " --json " + json),
         0, {});
  EXPECT_LT(nlohmann::json::parse(read(json))["kl"].get<double>(), 1e-3);
}

TEST_F(MixtureCommand, AnAdapterIsMergedIntoAFolderWhoseExpertsAreStacked) {
  make_gpt_oss();
  const std::string adapter = " --adapter " + path("adapter");
  neuronmm::io::write_small_adapter(path("adapter"), 64, 2.0F);
  expect(neuronmm("import " + path("oss") + adapter + " -o " + path("merged")), 0, {"written to "});
  const auto text_of = [](const std::string& model) {
    return neuronmm("generate " + model + " --prompt Once --max-new-tokens 12 --temperature 0", "",
                    "/dev/null")
        .output;
  };
  const std::string merged = text_of(path("merged"));
  EXPECT_EQ(merged, text_of(path("oss") + adapter));
  EXPECT_NE(merged, text_of(path("oss")));
  const std::string weights = read(path("merged") + "/model.safetensors");
  EXPECT_NE(weights.find("model.layers.0.mlp.experts.gate_up_proj\""), std::string::npos);
}

// Starts `neuronmm serve` and ends it.
class Server {
 public:
  Server(const std::string& model, const std::string& log) {
    const neuronmm::apps::Outcome started = neuronmm::apps::run_shell(
        "'" + neuronmm::program_path().string() + "' serve '" + model + "' --port 0 >'" + log +
        "' 2>&1 & for i in $(seq 1200); do grep -qs 'is ready' '" + log +
        "' && break; sleep 0.05; done; echo $!");
    process_ = std::atoi(started.output.c_str());
    const std::string text = read(log), before = "http://127.0.0.1:";
    const size_t found = text.find(before);
    EXPECT_NE(found, std::string::npos) << text;
    if (found != std::string::npos) port_ = std::atoi(text.c_str() + found + before.size());
  }
  ~Server() {
    if (process_ > 0) kill(process_, SIGKILL);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  int port() const { return port_; }

 private:
  int process_ = 0, port_ = 0;
};

// Requests that run together have the tokens and the log-probabilities that each has alone.
TEST_F(MixtureCommand, IsServedToSeveralClientsAtOnce) {
  using neuronmm::serve::HttpClient;
  const Server server(path("model"), path("log"));
  const auto request = [](const std::string& prompt, int tokens) {
    const nlohmann::json body = {{"prompt", prompt},
                                 {"max_tokens", tokens},
                                 {"temperature", 0},
                                 {"logprobs", 2},
                                 {"ignore_eos", true}};
    return neuronmm::serve::post_text("/v1/completions", body.dump());
  };
  const auto answer = [](HttpClient& client) {
    const auto response = client.read_response();
    EXPECT_EQ(response.status, 200) << response.body;
    return nlohmann::json::parse(response.body, nullptr, false)["choices"];
  };
  const std::vector<std::string> requests = {request("Once upon a time", 90),
                                             request("The little dog", 80),
                                             request("A red ball and a blue ball were", 70)};
  std::vector<nlohmann::json> alone;
  for (const std::string& text : requests) {
    HttpClient client(server.port());
    ASSERT_TRUE(client.send(text));
    alone.push_back(answer(client));
  }
  EXPECT_NE(alone[0], alone[1]);
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (const std::string& text : requests) {
    clients.push_back(std::make_unique<HttpClient>(server.port()));
    ASSERT_TRUE(clients.back()->send(text));
  }
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(answer(*clients[i]), alone[i]) << i;
}

TEST_F(MixtureCommand, IsRefusedByWhatDoesNotTreatIt) {
  const std::string model = path("model"), out = " -o " + path("out");
  expect(neuronmm("compress " + model + out + " --method svd --ratio 0.2"), 1,
         {"model", "mixtures of experts", "neurons and experts", "found form uv"});
  expect(neuronmm("fit " + model + out + " --bytes 1M --calibration " + text()), 1,
         {"mixtures of experts", "fit", "quantize --bits"});
  expect(neuronmm("export " + model + out + " --target nxdi"), 1, {"mixtures of experts"});
  expect(neuronmm("bench " + model + " --device trn2 --prompt-tokens 8 --new-tokens 2"), 1,
         {"mixtures of experts", "--device cpu"});
  EXPECT_FALSE(fs::exists(path("out")));
}

}  // namespace
