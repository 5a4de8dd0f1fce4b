// Tests the files with which transformers opens a folder. tests/slow/transformers.sh tests with
// transformers that it does.

#include <algorithm>
#include <cstdio>
#include <set>

#include <nlohmann/json.hpp>

#include "compress/compress_test.h"
#include "compress/dequantize.h"
#include "compress/output/transformers_code.h"
#include "compress/quantize.h"
#include "io/checkpoint.h"
#include "io/safetensors.h"
#include "io/text_file.h"
#include "places.h"

namespace neuronmm::compress {
namespace {

std::string content(const fs::path& path) {
  auto text = io::read_text_file(path, io::kMaxConfigBytes);
  return text.ok() ? *text : text.error().message;
}

class TransformersFiles : public CompressTest {
 protected:
  nlohmann::json config(const std::string& out) const {
    return nlohmann::json::parse(bytes(out, "config.json"));
  }
  // Writes the input as a model of `architecture`.
  void write(io::Architecture architecture) {
    config_ = model::tiny_config(architecture);
    config_.hidden_size = kHidden;
    config_.intermediate_size = kInner;
    tensors_ = model::random_tensors(config_, 5);
    write_model(input_, tensors_);
  }
  void expect_files(const std::string& out, const std::string& stem) {
    EXPECT_EQ(config(out)["architectures"], nlohmann::json({"Neuronmm" + stem + "ForCausalLM"}));
    EXPECT_EQ(bytes(out, "configuration_neuronmm.py"), configuration_code());
    EXPECT_EQ(bytes(out, "modeling_neuronmm.py"), modeling_code());
    EXPECT_EQ(bytes(out, "neuronmm_mlp.py"), mlp_code());
    const auto transformer = model::Transformer::load(path(out), backend_);
    EXPECT_TRUE(transformer.ok()) << transformer.error().message;
  }
};

TEST_F(TransformersFiles, TheSourcesAreCompiledIn) {
  const fs::path sources = source_dir() / "python/transformers";
  EXPECT_EQ(configuration_code(), content(sources / "configuration_neuronmm.py"));
  EXPECT_EQ(modeling_code(), content(sources / "modeling_neuronmm.py"));
  EXPECT_EQ(mlp_code(), content(sources / "neuronmm_mlp.py"));
}

// Runs sha256sum, which a reader of the card runs, too.
std::string sha256_of(const fs::path& file) {
  const std::string command = "sha256sum '" + file.string() + "'";
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string sum(64, '\0');
  sum.resize(fread(sum.data(), 1, sum.size(), pipe));
  pclose(pipe);
  return sum;
}

TEST_F(TransformersFiles, TheCardNamesTheCodeWithItsSums) {
  CompressRequest wanted = request("out", Method::kSvd);
  run_well(wanted);
  const std::string card = bytes("out", "README.md");
  std::set<std::string> code;
  for (const auto& entry : fs::directory_iterator(path("out"))) {
    if (entry.path().extension() != ".py") continue;
    const std::string name = entry.path().filename().string();
    code.insert(name);
    EXPECT_NE(card.find("| `" + name + "` |"), std::string::npos) << name;
    EXPECT_NE(card.find("| `" + sha256_of(entry.path()) + "` |"), std::string::npos) << name;
  }
  EXPECT_EQ(code, (std::set<std::string>{"configuration_neuronmm.py", "modeling_neuronmm.py",
                                         "neuronmm_mlp.py"}));
  EXPECT_NE(card.find("neuronmm " + std::string(code_version())), std::string::npos);
}

// The input is a folder as a stranger may publish it. Nothing of it that names or holds code may
// be in any output.
TEST_F(TransformersFiles, NothingExecutableOfTheInputReachesAnOutput) {
  constexpr const char* kMark = "evil_module";
  auto json = nlohmann::json::parse(model::config_json(config_));
  json["auto_map"] = {{"AutoModelForCausalLM", "evil_module.Model"}};
  json["task_specific_params"] = {{"auto_map", {{"AutoConfig", "evil_module.Config"}}}};
  input_.write_text("config.json", json.dump());
  input_.write_text("tokenizer_config.json", R"({"auto_map": {"AutoTokenizer": "evil_module.T"}})");
  input_.write_text("generation_config.json", R"({"custom_generate": "evil_module", "top_k": 5})");
  input_.write_text("preprocessor_config.json", R"({"auto_map": "evil_module.P"})");
  input_.write_text("evil_module.py", "evil_module = 1");
  input_.write_text("tokenizer.model", "\x80\x04 evil_module pickle");
  run_well(request("low-rank", Method::kSvd));
  CompressRequest plain = request("plain");
  plain.form = Form::kNeurons;
  plain.allocate = Allocate::kUniform;
  run_well(plain);
  Progress silent;
  ASSERT_TRUE(quantize({.model = input_.path(), .out = path("rounded")}, backend_, silent).ok());
  ASSERT_TRUE(dequantize(path("rounded"), path("floats"), silent).ok());
  for (const std::string out : {"low-rank", "plain", "rounded", "floats"}) {
    EXPECT_TRUE(fs::exists(path(out) / "generation_config.json")) << out;
    for (const auto& entry : fs::directory_iterator(path(out))) {
      const std::string name = entry.path().filename().string();
      EXPECT_EQ(bytes(out, name).find(kMark), std::string::npos) << out << "/" << name;
      if (entry.path().extension() == ".py") {
        EXPECT_NE(name.find("neuronmm"), std::string::npos);
      }
    }
  }
  EXPECT_FALSE(config("plain").contains("auto_map"));
}

TEST_F(TransformersFiles, EveryKindOfFolderHasThem) {
  for (const io::Architecture architecture : {io::Architecture::kLlama, io::Architecture::kMistral,
                                              io::Architecture::kQwen2, io::Architecture::kQwen3}) {
    write(architecture);
    const std::string name(io::architecture_name(architecture));
    const std::string stem = name.substr(0, name.find("ForCausalLM"));
    CompressRequest wanted = request("low-rank", Method::kSvd);
    wanted.force = true;
    run_well(wanted);
    expect_files("low-rank", stem);
    EXPECT_FALSE(config("low-rank").contains("neuronmm_quantization"));
    // A folder whose config names the classes of this program can be read and replaced like any
    // other.
    ASSERT_TRUE(
        quantize({.model = path("low-rank"), .out = path("both"), .force = true}, backend_, silent_)
            .ok());
    expect_files("both", stem);
    EXPECT_EQ(config("both")["neuronmm_compression"], config("low-rank")["neuronmm_compression"]);
    ASSERT_TRUE(
        quantize({.model = input_.path(), .out = path("int8"), .force = true}, backend_, silent_)
            .ok());
    expect_files("int8", stem);
    EXPECT_TRUE(config("int8").contains("neuronmm_quantization"));
    EXPECT_FALSE(config("int8").contains("neuronmm_compression"));
  }
}

// Phi-3 is Llama with fused matrices, so both have the same values.
TEST_F(TransformersFiles, FoldersForPublishedClassesHaveTheMatricesOfTheClass) {
  const auto write_folders = [&](const std::string& end) {
    CompressRequest plain = request("plain" + end);
    plain.form = Form::kNeurons;
    plain.allocate = Allocate::kUniform;
    run_well(plain);
    const fs::path rounded = path("rounded" + end);
    ASSERT_TRUE(quantize({.model = input_.path(), .out = rounded}, backend_, silent_).ok());
    const Status made = dequantize(rounded, path("floats" + end), silent_);
    ASSERT_TRUE(made.ok()) << made.error().message;
  };
  write_folders("");
  auto json = nlohmann::json::parse(model::config_json(config_));
  json["architectures"] = {"Phi3ForCausalLM"};
  json["model_type"] = "phi3";
  input_.write_text("config.json", json.dump());
  write_folders("-phi3");
  for (const std::string name : {"plain", "floats"}) {
    SCOPED_TRACE(name);
    const std::string out = name + "-phi3";
    EXPECT_EQ(config(out)["architectures"], nlohmann::json({"Phi3ForCausalLM"}));
    const auto stored = io::SafetensorsFile::open(path(out) / "model.safetensors");
    ASSERT_TRUE(stored.ok());
    const std::string layer = "model.layers.2.";
    const int64_t rows = (config_.num_attention_heads + 2 * config_.num_key_value_heads) * 8;
    EXPECT_EQ(stored->tensors().at(layer + "self_attn.qkv_proj.weight").shape,
              (Shape{rows, kHidden}));
    EXPECT_TRUE(stored->tensors().contains(layer + "mlp.gate_up_proj.weight"));
    EXPECT_FALSE(stored->tensors().contains(layer + "self_attn.q_proj.weight"));
    EXPECT_FALSE(stored->tensors().contains(layer + "mlp.gate_proj.weight"));
    const auto split = io::Checkpoint::open(path(name)), fused = io::Checkpoint::open(path(out));
    ASSERT_TRUE(split.ok() && fused.ok());
    EXPECT_EQ(split->tensors().size(), fused->tensors().size());
    for (const auto& [tensor_name, tensor] : split->tensors()) {
      const TensorView& other = fused->tensors().at(tensor_name);
      ASSERT_EQ(tensor.shape, other.shape) << tensor_name;
      EXPECT_TRUE(std::equal(tensor.data, tensor.data + tensor.size_bytes(), other.data))
          << tensor_name;
    }
  }
}

// The reference system publishes such folders: they have factors, and a config that does not say
// so.
TEST_F(TransformersFiles, MissingRanksAreReadFromTheTensors) {
  CompressRequest wanted = request("small", Method::kSvd);
  wanted.shapes.assign(kLayers, io::MlpShape{.gate = kRank, .up = kRank});
  run_well(wanted);
  const nlohmann::json recorded = config("small")["neuronmm_compression"]["ranks"];
  fs::copy_file(input_.path() / "config.json", path("small") / "config.json",
                fs::copy_options::overwrite_existing);
  ASSERT_TRUE(
      quantize({.model = path("small"), .out = path("out"), .force = true}, backend_, silent_)
          .ok());
  const nlohmann::json found = config("out")["neuronmm_compression"];
  EXPECT_EQ(found["ranks"], recorded);
  EXPECT_EQ(found["method"], "unknown");
  EXPECT_NEAR(found["ratio"].get<double>(), 0.25, 1e-12);  // rank 16 of 32 x 64
  expect_files("out", "Llama");
}

}  // namespace
}  // namespace neuronmm::compress
