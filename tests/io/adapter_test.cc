// Tests merging LoRA adapters: values against sums in fp64, names of families, and refusals.

#include "io/adapter.h"

#include <cmath>
#include <functional>
#include <numeric>

#include <nlohmann/json.hpp>

#include "io/adapter_config.h"
#include "io/checkpoint.h"
#include "io/file_identity.h"
#include "io/merged_tensor.h"
#include "io/model_folder.h"
#include "io/safetensors_writer.h"
#include "io/weights_checksum.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;
using JsonValue = nlohmann::json;

constexpr int64_t kHidden = 8, kInner = 12, kVocabulary = 10;

// A tensor of a file that a test writes, with values that look random.
struct Written {
  std::string name;
  Shape shape;
  std::vector<float> values;
  DType dtype = DType::kF32;
};

Written written(const std::string& name, const Shape& shape, DType dtype = DType::kF32) {
  Written tensor = {name, shape, {}, dtype};
  const int64_t size = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  uint64_t state = std::hash<std::string>()(name);
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < size; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    tensor.values.push_back(static_cast<float>(static_cast<double>(state >> 40) / (1 << 23) - 1.0));
  }
  // The file holds what is expected later.
  append_rounded(dtype, tensor.values.data(), size, bytes);
  to_floats({dtype, shape, bytes.data()}, 0, size, tensor.values.data());
  return tensor;
}

void put_tensors(const fs::path& path, const std::vector<Written>& tensors) {
  std::vector<TensorSpec> specs;
  for (const Written& tensor : tensors) specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  auto writer = SafetensorsWriter::create(path, specs);
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  for (const Written& tensor : tensors) {
    std::vector<std::byte> bytes;
    append_rounded(tensor.dtype, tensor.values.data(), std::ssize(tensor.values), bytes);
    ASSERT_TRUE(writer->append(bytes).ok());
  }
  ASSERT_TRUE(writer->finish().ok());
}

const Written& find(const std::vector<Written>& tensors, const std::string& name) {
  for (const Written& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  ADD_FAILURE() << name;
  return tensors.front();
}

// Returns W + scale · left · right in fp64.
std::vector<double> sum(const Written& base, const std::vector<float>& left,
                        const std::vector<float>& right, double scale) {
  const auto rows = static_cast<size_t>(base.shape[0]),
             columns = static_cast<size_t>(base.shape[1]);
  const size_t rank = left.size() / rows;
  std::vector<double> result(base.values.begin(), base.values.end());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      double product = 0.0;
      for (size_t k = 0; k < rank; ++k)
        product += double{left[i * rank + k]} * double{right[k * columns + j]};
      result[i * columns + j] += scale * product;
    }
  }
  return result;
}

std::vector<float> transposed(const std::vector<float>& values, size_t rows) {
  const size_t columns = values.size() / rows;
  std::vector<float> result(values.size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) result[j * rows + i] = values[i * columns + j];
  }
  return result;
}

std::vector<float> values_of(const TensorView& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.size()));
  to_floats(tensor, 0, tensor.size(), values.data());
  return values;
}

// The error of fp32 sums of a few products below 4.
void expect_near(const std::vector<float>& found, const std::vector<double>& expected,
                 double relative = 1e-6) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], relative * std::max(1.0, std::abs(expected[i]))) << i;
}

JsonValue llama_config() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", kHidden},
          {"intermediate_size", kInner},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 1},
          {"vocab_size", kVocabulary},
          {"max_position_embeddings", 32},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"attention_bias", true},
          {"tie_word_embeddings", false}};
}

class Adapter : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(model());
    fs::create_directories(adapter());
    config_ = llama_config();
    const std::string layer = "model.layers.0.";
    for (const auto& [name, rows, columns] :
         std::initializer_list<std::tuple<const char*, int64_t, int64_t>>{
             {"self_attn.q_proj", 8, 8},
             {"self_attn.k_proj", 4, 8},
             {"self_attn.v_proj", 4, 8},
             {"self_attn.o_proj", 8, 8},
             {"mlp.gate_proj", 12, 8},
             {"mlp.up_proj", 12, 8},
             {"mlp.down_proj", 8, 12}})
      base_.push_back(written(layer + name + ".weight", {rows, columns}));
    base_.push_back(written(layer + "self_attn.q_proj.bias", {8}));
    base_.push_back(written("model.embed_tokens.weight", {kVocabulary, kHidden}));
    base_.push_back(written("lm_head.weight", {kVocabulary, kHidden}));
    settings_ = {
        {"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 3}, {"target_modules", {"q_proj"}}};
  }

  fs::path model() const { return root_ / "model"; }
  fs::path adapter() const { return root_ / "adapter"; }

  // Adds A and B of a module.
  void add_pair(const std::string& module, int64_t outputs, int64_t inputs, int64_t rank = 2) {
    const std::string name = "base_model.model." + module;
    adapter_.push_back(written(name + ".lora_A.weight", {rank, inputs}));
    adapter_.push_back(written(name + ".lora_B.weight", {outputs, rank}));
  }

  Result<Checkpoint> open() {
    put(model() / "config.json", config_.dump());
    put(adapter() / "adapter_config.json", settings_.dump());
    put_tensors(model() / "model.safetensors", base_);
    put_tensors(adapter() / "adapter_model.safetensors", adapter_);
    use_adapter(model(), adapter());
    return Checkpoint::open(model());
  }

  // Returns the expected values of a linear module.
  std::vector<double> merged(const std::string& module, double scale) const {
    const std::string name = "base_model.model." + module;
    return sum(find(base_, module + ".weight"), find(adapter_, name + ".lora_B.weight").values,
               find(adapter_, name + ".lora_A.weight").values, scale);
  }

  TemporaryFolder root_;
  JsonValue config_, settings_;
  std::vector<Written> base_, adapter_;
};

constexpr const char* kQ = "model.layers.0.self_attn.q_proj";

TEST_F(Adapter, AddsTheProductTimesAlphaDividedByRank) {
  add_pair(kQ, 8, 8);
  const auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  expect_near(values_of(checkpoint->tensors().at("model.layers.0.self_attn.q_proj.weight")),
              merged(kQ, 1.5));
  // Other tensors stay as they are.
  const std::string k = "model.layers.0.self_attn.k_proj.weight";
  EXPECT_EQ(values_of(checkpoint->tensors().at(k)), find(base_, k).values);
  EXPECT_TRUE(checkpoint->adapted("model.layers.0.self_attn.q_proj.weight"));
  EXPECT_FALSE(checkpoint->adapted(k));
}

TEST_F(Adapter, PartsOfRowsAreTheSameAsWholeOnes) {
  add_pair("model.layers.0.mlp.down_proj", 8, 12);
  const auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const TensorView tensor = checkpoint->tensors().at("model.layers.0.mlp.down_proj.weight");
  const std::vector<float> whole = values_of(tensor);
  for (int64_t first = 0; first < tensor.size(); first += 5) {
    const int64_t count = std::min<int64_t>(tensor.size() - first, 31);
    std::vector<float> part(static_cast<size_t>(count));
    to_floats(tensor, first, count, part.data());
    for (int64_t i = 0; i < count; ++i)
      ASSERT_EQ(part[static_cast<size_t>(i)], whole[static_cast<size_t>(first + i)]);
  }
}

TEST_F(Adapter, ScalesFollowPatternsAndRankStabilization) {
  settings_["rank_pattern"] = {{"up_proj", 4}};
  settings_["alpha_pattern"] = {{"^model.layers.0.self_attn.q_proj", 5}, {"q_proj", 7}};
  settings_["use_rslora"] = true;
  add_pair(kQ, 8, 8);
  add_pair("model.layers.0.mlp.up_proj", 12, 8, 4);
  const auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  expect_near(values_of(checkpoint->tensors().at("model.layers.0.self_attn.q_proj.weight")),
              merged(kQ, 5.0 / std::sqrt(2.0)));
  expect_near(values_of(checkpoint->tensors().at("model.layers.0.mlp.up_proj.weight")),
              merged("model.layers.0.mlp.up_proj", 3.0 / 2.0));
}

// The order of a file's keys decides, and names match from a dot on.
TEST(AdapterConfig, TheFirstKeyThatMatchesDecides) {
  const auto config = AdapterConfig::parse(
      R"({"peft_type":"LORA","r":8,"lora_alpha":16,
          "alpha_pattern":{"z_proj":1,"self_attn.z_proj":2,"layers.1.mlp.up_proj":3}})",
      "adapter_config.json");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->scale_of("model.layers.0.self_attn.z_proj"), 1.0 / 8);
  EXPECT_EQ(config->scale_of("model.layers.1.mlp.up_proj"), 3.0 / 8);
  EXPECT_EQ(config->scale_of("model.layers.11.mlp.up_proj"), 2.0);
  EXPECT_EQ(config->scale_of("model.layers.0.self_attn.xz_proj"), 2.0);
}

TEST_F(Adapter, RoundsOnceToTheDtypeOfTheModel) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    base_.front() = written("model.layers.0.self_attn.q_proj.weight", {8, 8}, dtype);
    adapter_.clear();
    add_pair(kQ, 8, 8);
    const auto checkpoint = open();
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    const TensorView tensor = checkpoint->tensors().at("model.layers.0.self_attn.q_proj.weight");
    EXPECT_EQ(type_name(tensor), dtype_name(dtype));
    const std::vector<float> found = values_of(tensor);
    expect_near(found, merged(kQ, 1.5), dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11);
    std::vector<std::byte> bytes;
    std::vector<float> rounded(found.size());
    append_rounded(dtype, found.data(), std::ssize(found), bytes);
    to_floats({dtype, {8, 8}, bytes.data()}, 0, 64, rounded.data());
    EXPECT_EQ(rounded, found);
  }
}

TEST_F(Adapter, MagnitudesAreTheNormsOfRows) {
  settings_["use_dora"] = true;
  add_pair(kQ, 8, 8);
  adapter_.push_back(
      written("base_model.model." + std::string(kQ) + ".lora_magnitude_vector", {8}));
  const auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  std::vector<double> expected = merged(kQ, 1.5);
  for (size_t row = 0; row < 8; ++row) {
    double squares = 0.0;
    for (size_t i = 0; i < 8; ++i) squares += expected[row * 8 + i] * expected[row * 8 + i];
    for (size_t i = 0; i < 8; ++i)
      expected[row * 8 + i] *= double{adapter_.back().values[row]} / std::sqrt(squares);
  }
  expect_near(values_of(checkpoint->tensors().at("model.layers.0.self_attn.q_proj.weight")),
              expected);
}

TEST_F(Adapter, TablesAreChangedByTransposedPairs) {
  adapter_ = {written("base_model.model.model.embed_tokens.lora_embedding_A", {2, kVocabulary}),
              written("base_model.model.model.embed_tokens.lora_embedding_B", {kHidden, 2})};
  const auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  expect_near(values_of(checkpoint->tensors().at("model.embed_tokens.weight")),
              sum(find(base_, "model.embed_tokens.weight"), transposed(adapter_[0].values, 2),
                  transposed(adapter_[1].values, kHidden), 1.5));
}

TEST_F(Adapter, BiasesAndWholeTensorsAreReplaced) {
  settings_["bias"] = "lora_only";
  settings_["modules_to_save"] = {"lm_head"};
  base_.back() = written("lm_head.weight", {kVocabulary, kHidden}, DType::kBF16);
  adapter_ = {written("base_model.model." + std::string(kQ) + ".base_layer.bias", {8}),
              written("base_model.model.lm_head.weight", {kVocabulary, kHidden})};
  const auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(values_of(checkpoint->tensors().at("model.layers.0.self_attn.q_proj.bias")),
            adapter_[0].values);
  const TensorView head = checkpoint->tensors().at("lm_head.weight");
  EXPECT_EQ(type_name(head), "BF16");
  expect_near(values_of(head), {adapter_[1].values.begin(), adapter_[1].values.end()}, 0x1p-8);
}

TEST_F(Adapter, BiasOfBIsAddedToTheBias) {
  settings_["lora_bias"] = true;
  add_pair(kQ, 8, 8);
  adapter_.push_back(written("base_model.model." + std::string(kQ) + ".lora_B.bias", {8}));
  const auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const Written& base = find(base_, "model.layers.0.self_attn.q_proj.bias");
  std::vector<double> expected(base.values.begin(), base.values.end());
  for (size_t i = 0; i < 8; ++i) expected[i] += 1.5 * double{adapter_.back().values[i]};
  expect_near(values_of(checkpoint->tensors().at("model.layers.0.self_attn.q_proj.bias")),
              expected);
}

// PEFT trains the head of a tied model apart from the table.
TEST_F(Adapter, AdapterOfTheHeadUntiesAModel) {
  config_["tie_word_embeddings"] = true;
  base_.pop_back();
  add_pair("lm_head", kVocabulary, kHidden);
  ASSERT_TRUE(open().ok()) << open().error().message;
  const auto model_folder = open_model(model());
  ASSERT_TRUE(model_folder.ok()) << model_folder.error().message;
  EXPECT_FALSE(model_folder->config.tie_word_embeddings);
  const auto& tensors = model_folder->checkpoint.tensors();
  const Written& table = find(base_, "model.embed_tokens.weight");
  EXPECT_EQ(values_of(tensors.at("model.embed_tokens.weight")), table.values);
  expect_near(values_of(tensors.at("lm_head.weight")),
              sum(table, adapter_[1].values, adapter_[0].values, 1.5));
  const auto text = config_text(model_folder->checkpoint);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(JsonValue::parse(*text).at("tie_word_embeddings"), false);
}

TEST_F(Adapter, FusedMatricesOfAnAdapterFitTheSplitOnes) {
  config_["architectures"] = {"Phi3ForCausalLM"};
  config_["model_type"] = "phi3";
  config_["attention_bias"] = false;
  std::erase_if(
      base_, [](const Written& tensor) { return tensor.name.find("layers") != tensor.name.npos; });
  base_.push_back(written("model.layers.0.self_attn.qkv_proj.weight", {16, 8}));
  settings_["use_dora"] = true;
  const std::string module = "model.layers.0.self_attn.qkv_proj";
  add_pair(module, 16, 8);
  adapter_.push_back(written("base_model.model." + module + ".lora_magnitude_vector", {16}));
  const auto checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  std::vector<double> whole = merged(module, 1.5);
  std::vector<float> found;
  for (const char* name : {"q", "k", "v"}) {
    const auto rows = values_of(
        checkpoint->tensors().at(fmt::format("model.layers.0.self_attn.{}_proj.weight", name)));
    found.insert(found.end(), rows.begin(), rows.end());
  }
  for (size_t row = 0; row < 16; ++row) {
    double squares = 0.0;
    for (size_t i = 0; i < 8; ++i) squares += whole[row * 8 + i] * whole[row * 8 + i];
    for (size_t i = 0; i < 8; ++i)
      whole[row * 8 + i] *= double{adapter_.back().values[row]} / std::sqrt(squares);
  }
  expect_near(found, whole);
}

TEST_F(Adapter, IdentityAndChecksumTellAdaptersApart) {
  add_pair(kQ, 8, 8);
  const auto with = open();
  ASSERT_TRUE(with.ok()) << with.error().message;
  const auto identity = folder_identity(model());
  const std::string checksum = weights_checksum(*with);
  settings_["lora_alpha"] = 4;
  const auto other = open();
  ASSERT_TRUE(identity.ok() && other.ok());
  EXPECT_NE(weights_checksum(*other), checksum);
  EXPECT_NE(*folder_identity(model()), *identity);
}

TEST_F(Adapter, NamesWhatDoesNotFit) {
  const auto error_of = [&](const std::function<void()>& change) {
    const auto settings = settings_;
    const auto adapter = adapter_;
    const auto base = base_;
    change();
    const auto opened = open();
    settings_ = settings;
    adapter_ = adapter;
    base_ = base;
    return opened;
  };
  add_pair(kQ, 8, 8);
  EXPECT_TRUE(fails_with(error_of([&] { add_pair("model.layers.7.self_attn.q_proj", 8, 8); }),
                         {"adapter_model.safetensors", "layers.7", "matches no tensor"}));
  EXPECT_TRUE(fails_with(error_of([&] { add_pair("model.layers.0.self_attn.k_proj", 8, 8); }),
                         {"adapter_model.safetensors", "k_proj", "[8, 8]", "[4, 8]"}));
  EXPECT_TRUE(fails_with(error_of([&] { adapter_.pop_back(); }), {"q_proj", "no lora_B"}));
  EXPECT_TRUE(fails_with(error_of([&] { settings_["r"] = 4; }), {"q_proj", "rank 4", "rank 2"}));
  EXPECT_TRUE(fails_with(error_of([&] { settings_["use_dora"] = true; }),
                         {"q_proj", "no lora_magnitude_vector", "use_dora"}));
  EXPECT_TRUE(fails_with(error_of([&] {
                           adapter_.push_back(written("x.lora_C.weight", {2, 2}));
                         }),
                         {"x.lora_C.weight", "none that a LoRA adapter"}));
  EXPECT_TRUE(fails_with(
      error_of([&] {
        adapter_.push_back(written("base_model.model.lm_head.weight", {kVocabulary + 1, kHidden}));
      }),
      {"lm_head", "[11, 8]", "[10, 8]", "other tokens"}));
  settings_["base_model_name_or_path"] = "org/base";
  EXPECT_TRUE(fails_with(error_of([&] { add_pair("model.layers.7.mlp.up_proj", 8, 8); }),
                         {"layers.7", "org/base"}));
}

TEST_F(Adapter, RefusesWeightsOfFewBits) {
  add_pair(kQ, 8, 8);
  ASSERT_TRUE(open().ok());
  std::string header = R"({"model.layers.0.self_attn.q_proj.weight":{"dtype":"I8","shape":[8,8],)";
  header += R"("data_offsets":[0,64]}})";
  put(model() / "model.safetensors", safetensors_bytes(header, 64));
  EXPECT_TRUE(fails_with(Checkpoint::open(model()),
                         {"q_proj", "few bits", "neuronmm import ORIGINAL --adapter"}));
}

TEST_F(Adapter, SaysWhatAFolderIsInstead) {
  use_adapter(model(), root_ / "absent");
  put(model() / "config.json", config_.dump());
  put_tensors(model() / "model.safetensors", base_);
  EXPECT_TRUE(fails_with(Checkpoint::open(model()), {"absent", "there is no such folder"}));
  use_adapter(model(), adapter());
  EXPECT_TRUE(fails_with(Checkpoint::open(model()), {"adapter_config.json", "no such file"}));
  put(adapter() / "adapters.safetensors", "");
  EXPECT_TRUE(fails_with(Checkpoint::open(model()), {"MLX"}));
  put(adapter() / "config.json", "{}");
  fs::remove(adapter() / "adapters.safetensors");
  EXPECT_TRUE(fails_with(Checkpoint::open(model()), {"whole model"}));
  put(adapter() / "adapter_config.json", settings_.dump());
  EXPECT_TRUE(fails_with(Checkpoint::open(model()), {"adapter_model.safetensors"}));
  put(adapter() / "adapter_model.bin", "");
  EXPECT_TRUE(fails_with(Checkpoint::open(model()), {"adapter_model.bin", "pickles"}));
}

TEST(AdapterConfig, RefusesByNameWhatItDoesNotKnow) {
  const auto parse = [](JsonValue changes) {
    JsonValue document = {{"peft_type", "LORA"}, {"r", 8}, {"lora_alpha", 16}};
    document.update(changes);
    return AdapterConfig::parse(document.dump(), "adapter_config.json");
  };
  EXPECT_TRUE(parse(JsonValue::object()).ok());
  // Settings that are off, and settings of training.
  EXPECT_TRUE(parse({{"use_qalora", false},
                     {"arrow_config", nullptr},
                     {"layer_replication", JsonValue::array()}})
                  .ok());
  EXPECT_TRUE(
      parse({{"lora_dropout", 0.1}, {"task_type", "CAUSAL_LM"}, {"target_modules", "all-linear"}})
          .ok());
  EXPECT_TRUE(parse({{"init_lora_weights", "gaussian"}}).ok());
  for (const char* key : {"layer_replication", "alora_invocation_tokens", "use_qalora",
                          "arrow_config", "use_bdlora", "kasa_config", "monteclora_config",
                          "trainable_token_indices", "target_parameters", "a_new_setting"})
    EXPECT_TRUE(fails_with(parse({{key, {1}}}), {"adapter_config.json", key})) << key;
  for (const char* start : {"pissa", "pissa_niter_4", "olora", "corda", "lora_ga", "loftq"})
    EXPECT_TRUE(fails_with(parse({{"init_lora_weights", start}}), {"init_lora_weights", start}));
  EXPECT_TRUE(fails_with(parse({{"peft_type", "IA3"}}), {"peft_type", "LORA", "IA3"}));
  EXPECT_TRUE(fails_with(parse({{"r", 0}}), {"\"r\"", "from 1", "0"}));
  EXPECT_TRUE(fails_with(parse({{"r", "8"}}), {"\"r\""}));
  EXPECT_TRUE(fails_with(parse({{"alpha_pattern", {{"q_proj|k_proj", 2}}}}),
                         {"alpha_pattern", "q_proj|k_proj", "regular expression"}));
  EXPECT_TRUE(fails_with(parse({{"rank_pattern", {{"q_proj", 0}}}}), {"rank_pattern", "q_proj"}));
  EXPECT_TRUE(fails_with(parse({{"rank_pattern", 3}}), {"rank_pattern", "an object"}));
  EXPECT_TRUE(fails_with(AdapterConfig::parse("[]", "a.json"), {"a.json", "JSON object"}));
  EXPECT_TRUE(fails_with(AdapterConfig::parse("{}", "a.json"), {"a.json", "peft_type"}));
}

}  // namespace
}  // namespace neuronmm::io
