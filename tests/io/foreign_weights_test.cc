// Tests that weights which other programs have rounded are read exactly, or refused with a message
// that names what is wrong. make_foreign_golden.py wrote the files of foreign_golden.

#include "io/foreign_weights.h"

#include <cstring>
#include <functional>
#include <limits>
#include <list>
#include <random>

#include <nlohmann/json.hpp>

#include "io/checkpoint.h"
#include "io_test.h"
#include "places.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;
using Document = nlohmann::json;

fs::path golden_folder() { return source_dir() / "tests/io/foreign_golden"; }

// One golden file: the module's tensors, its config entry and its values.
struct Golden {
  explicit Golden(const std::string& name)
      : file(SafetensorsFile::open(golden_folder() / (name + ".safetensors")).value()),
        entry(Document::parse(file.metadata().at("quantization_config"))),
        tensors(file.tensors()),
        expected(tensors.at("expected")) {
    tensors.erase("expected");
  }
  Result<ForeignWeights> decode() {
    NMM_ASSIGN(ForeignQuantization quantization,
               parse_foreign_quantization(JsonFields(entry, "config.json: \"q\"")));
    quantization.source = "config.json";
    return decode_foreign(quantization, "FOLDER", tensors);
  }
  // Replaces a tensor by one with these values.
  template <typename T>
  void put_tensor(const std::string& name, DType dtype, Shape shape, const std::vector<T>& values) {
    auto& bytes = owned.emplace_back(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    tensors[name] = TensorView{dtype, std::move(shape), bytes.data()};
  }
  // Changes one element of a tensor of 16 or 32 bits.
  template <typename T>
  void change(const std::string& name, int64_t index, T value) {
    const TensorView old = tensors.at(name);
    std::vector<T> values(static_cast<size_t>(old.size()));
    std::memcpy(values.data(), old.data, values.size() * sizeof(T));
    values[static_cast<size_t>(index)] = value;
    put_tensor(name, old.dtype, old.shape, values);
  }

  SafetensorsFile file;
  Document entry;
  Tensors tensors;
  TensorView expected;
  std::list<std::vector<std::byte>> owned;
};

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(golden_folder())) {
    names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

class ForeignGolden : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Layout, ForeignGolden, testing::ValuesIn(golden_names()),
                         [](const auto& golden) { return golden.param; });

TEST(ForeignWeights, EveryLayoutHasAGoldenFile) { EXPECT_EQ(golden_names().size(), 18u); }

TEST_P(ForeignGolden, ValuesAreExact) {
  Golden golden(GetParam());
  const auto weights = golden.decode();
  ASSERT_TRUE(weights.ok()) << weights.error().message;
  ASSERT_EQ(weights->matrices.size(), 1u);
  ASSERT_EQ(golden.tensors.size(), 1u) << "only the weight is left";
  const TensorView weight = golden.tensors.at("m.weight");
  ASSERT_EQ(weight.shape, golden.expected.shape);
  std::vector<float> found(static_cast<size_t>(weight.size())), expected(found.size());
  to_floats(weight, 0, weight.size(), found.data());
  to_floats(golden.expected, 0, weight.size(), expected.data());
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0);
}

TEST_P(ForeignGolden, PiecesOfRowsHaveTheSameValues) {
  Golden golden(GetParam());
  const auto weights = golden.decode();
  ASSERT_TRUE(weights.ok()) << weights.error().message;
  const TensorView weight = golden.tensors.at("m.weight");
  std::mt19937_64 random(3);
  for (int i = 0; i < 100; ++i) {
    const auto first = static_cast<int64_t>(random() % static_cast<uint64_t>(weight.size()));
    const auto count =
        static_cast<int64_t>(random() % static_cast<uint64_t>(weight.size() - first));
    std::vector<float> found(static_cast<size_t>(count)), expected(found.size());
    to_floats(weight, first, count, found.data());
    to_floats(golden.expected, first, count, expected.data());
    ASSERT_EQ(found, expected) << first << ", " << count;
  }
}

// Without any one of its tensors, a module is refused, and the message names the tensor. A module
// without g_idx has its columns in order.
TEST_P(ForeignGolden, EveryTensorIsNeeded) {
  const Golden whole(GetParam());
  for (const auto& [name, tensor] : whole.tensors) {
    Golden golden(GetParam());
    golden.tensors.erase(name);
    if (name.ends_with("g_idx")) {
      EXPECT_TRUE(golden.decode().ok()) << name;
    } else if (name.ends_with(".qweight") || name.ends_with(".weight") ||
               name.ends_with(".weight_packed")) {
      EXPECT_TRUE(golden.decode()->matrices.empty()) << name;  // ModelFolder reports the rest
    } else {
      EXPECT_TRUE(fails_with(golden.decode(), {"FOLDER", name, "expected", "found none"})) << name;
    }
  }
}

// Whatever the shapes and dtypes are, nothing outside a tensor is read.
TEST_P(ForeignGolden, WrongShapesAndDtypesAreRefused) {
  const Golden whole(GetParam());
  for (const auto& [name, tensor] : whole.tensors) {
    for (const Shape& shape : std::vector<Shape>{{}, {0, 0}, {7, 3}, {3, 1, 2}, {1, 997}}) {
      // A whole tensor with one scale may have any shape.
      const bool other_shape = GetParam() == "int8_tensor" && (shape.empty() || shape.size() == 2);
      if (other_shape && (shape.empty() || (name == "m.weight" && shape[0] > 0))) continue;
      Golden golden(GetParam());
      int64_t size = 1;
      for (const int64_t extent : shape) size *= extent;
      const auto bytes = static_cast<size_t>(size * dtype_size_bytes(tensor.dtype));
      golden.put_tensor(name, tensor.dtype, shape, std::vector<uint8_t>(bytes));
      EXPECT_TRUE(fails_with(golden.decode(), {"FOLDER", "m", "expected", "found"}))
          << name << " " << shape_string(shape);
    }
    if (name.ends_with(".weight") || name.ends_with("zero_point")) continue;
    Golden golden(GetParam());
    golden.tensors.at(name).dtype = DType::kU8;
    EXPECT_TRUE(fails_with(golden.decode(), {"FOLDER", name, "U8"})) << name;
  }
}

struct Damage {
  std::string golden;
  std::function<void(Golden&)> change;
  std::vector<std::string_view> words;
};

TEST(ForeignWeights, DamageIsNamed) {
  const auto set = [](const char* key, const Document& value) {
    return [key, value](Golden& golden) { golden.entry[key] = value; };
  };
  const std::vector<Damage> all = {
      {"gptq_4_g128_act",
       [](Golden& golden) { golden.change<int32_t>("m.g_idx", 5, 2); },
       {"m.g_idx", "groups below 2", "2 at column 5"}},
      {"gptq_4_g128_act",
       [](Golden& golden) { golden.change<int32_t>("m.g_idx", 0, -1); },
       {"m.g_idx", "-1 at column 0"}},
      {"packed_4_g32_act",
       [](Golden& golden) { golden.change<int32_t>("m.weight_g_idx", 63, 2); },
       {"m.weight_g_idx", "2 at column 63"}},
      {"gptq_4_g32",
       [](Golden& golden) { golden.change<uint16_t>("m.scales", 3, 0x7E00); },
       {"\"m\"", "finite scales", "nan in element 3"}},
      {"float8_channel",
       [](Golden& golden) {
         golden.change<float>("m.weight_scale", 9, std::numeric_limits<float>::infinity());
       },
       {"\"m\"", "finite scales", "inf in element 9"}},
      {"gptq_4_g32", set("group_size", 64), {"\"m\"", "groups of 64", "config.json", "2 groups"}},
      {"gptq_4_g32", set("group_size", -1), {"groups of 64", "2 groups"}},
      {"gptq_4_g32", set("bits", 8), {"m.qzeros", "for 8 bits", "[2, 2]"}},
      {"awq_gemm_g64", set("group_size", 32), {"groups of 32", "2 groups"}},
      {"awq_gemm_g64", set("version", "gemv"), {"FOLDER", "m.", "expected"}},
      {"packed_4_g32",
       [](Golden& golden) { golden.change<int64_t>("m.weight_shape", 0, 13); },
       {"m.weight_packed", "[13, 64]", "[12, 8]"}},
      {"packed_4_g32",
       [](Golden& golden) { golden.change<int64_t>("m.weight_shape", 1, int64_t{1} << 62); },
       {"m.weight_packed", "4611686018427387904"}},
      {"packed_4_g32",
       [](Golden& golden) { golden.change<int64_t>("m.weight_shape", 1, -64); },
       {"m.weight_packed", "-64"}},
      {"packed_4_g32",
       [](Golden& golden) { golden.tensors["m.weight"] = golden.expected; },
       {"\"m\"", "codes or floats, found both"}},
  };
  for (const Damage& damage : all) {
    Golden golden(damage.golden);
    damage.change(golden);
    const auto weights = golden.decode();
    ASSERT_FALSE(weights.ok()) << damage.golden << ": " << damage.words.back();
    for (const std::string_view word : damage.words) {
      EXPECT_NE(weights.error().message.find(word), std::string::npos)
          << word << " in " << weights.error().message;
    }
    EXPECT_NE(weights.error().message.find("download the folder again"), std::string::npos);
  }
}

Result<ForeignQuantization> quantization_of(const std::string& text) {
  const Document entry = Document::parse(text);
  return parse_foreign_quantization(JsonFields(entry, "config.json: \"quantization_config\""));
}

std::string compressed(const std::string& weights, const std::string& more = "") {
  return R"({"quant_method":"compressed-tensors","format":"pack-quantized",)" + more +
         R"("config_groups":{"group_0":{"targets":["Linear"],"weights":)" + weights + "}}}";
}

TEST(ForeignQuantization, WhatIsNotReadIsRefusedByName) {
  const std::vector<std::pair<std::string, std::vector<std::string_view>>> all = {
      {R"({"quant_method":"gptq","bits":3,"group_size":128})", {"\"bits\"", "4 or 8", "found 3"}},
      {R"({"quant_method":"gptq","group_size":128})", {"\"bits\"", "missing"}},
      {R"({"quant_method":"gptq","bits":4,"group_size":0})", {"\"group_size\"", "found 0"}},
      {R"({"quant_method":"gptq","bits":4,"checkpoint_format":"marlin"})",
       {"checkpoint_format", "gptq_v2", "\"marlin\""}},
      {R"({"quant_method":"gptq","bits":4,"is_marlin_format":true})", {"is_marlin_format"}},
      {R"({"quant_method":"gptq","bits":4,"rotation":"hadamard"})", {"rotation", "hadamard"}},
      {R"({"quant_method":"gptq","bits":4,"adapter":{"rank":8}})", {"adapter"}},
      {R"({"quant_method":"gptq","bits":4,"pack_dtype":"int16"})", {"pack_dtype", "int16"}},
      {R"({"quant_method":"awq","bits":8,"group_size":128})",
       {"\"bits\"", "expected 4", "found 8"}},
      {R"({"quant_method":"awq","bits":4,"group_size":128,"version":"gemv_fast"})",
       {"version", "gemm", "gemv_fast"}},
      {R"({"quant_method":"fp8","fmt":"e5m2"})", {"fmt", "e5m2"}},
      {R"({"quant_method":"fp8","weight_block_size":[128,0]})", {"weight_block_size"}},
      {R"({"quant_method":"fp8","weight_block_size":[128,9223372036854775807]})",
       {"weight_block_size"}},
      {R"({"quant_method":"compressed-tensors"})", {"config_groups", "missing"}},
      {compressed(R"({"num_bits":3,"type":"int"})"), {"group_0", "num_bits", "4 or 8", "found 3"}},
      {compressed(R"({"num_bits":4,"type":"float"})"), {"num_bits", "8 for floats", "found 4"}},
      {compressed(R"({"num_bits":4,"type":"int","strategy":"tensor_group"})"),
       {"strategy", "channel", "tensor_group"}},
      {compressed(R"({"num_bits":8,"type":"float","strategy":"block"})"), {"block_structure"}},
      {compressed(R"({"num_bits":4,"type":"int","dynamic":true})"), {"dynamic"}},
      {compressed(R"({"num_bits":4})", R"("transform_config":{"R1":{}},)"), {"transform_config"}},
      {compressed(R"({"num_bits":4})", R"("sparsity_config":{"format":"sparse-24-bitmask"},)"),
       {"sparsity_config"}},
      {R"({"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized","config_groups":{}})",
       {"format", "pack-quantized", "nvfp4-pack-quantized"}},
      {R"({"bits":4,"group_size":64})", {"quant_method", "missing"}},
      {R"({"quant_method":"squeeze"})", {"\"squeeze\"", "not known", "original model"}},
  };
  for (const auto& [text, words] : all) {
    const auto read = quantization_of(text);
    ASSERT_FALSE(read.ok()) << text;
    for (const std::string_view word : words) {
      EXPECT_NE(read.error().message.find(word), std::string::npos)
          << word << " in " << read.error().message;
    }
    EXPECT_NE(read.error().message.find("config.json"), std::string::npos);
  }
}

TEST(ForeignQuantization, OtherMethodsAreRefusedWithWhatToDo) {
  for (const std::string method :
       {"bitsandbytes", "hqq", "eetq", "aqlm", "quip", "exl2", "exl3", "torchao", "quanto",
        "fp_quant", "vptq", "spqr", "higgs", "bitnet", "modelopt", "quark", "auto-round"}) {
    EXPECT_TRUE(fails_with(quantization_of(R"({"quant_method":")" + method + "\"}"),
                           {"config.json", "\"" + method + "\"", "the original model"}));
  }
}

TEST(ForeignQuantization, SettingsOfTheOriginalProgramsAreRead) {
  const auto gptq =
      quantization_of(R"({"quant_method":"gptq","bits":4,"group_size":128,"desc_act":true,)"
                      R"("sym":true,"lm_head":false,"true_sequential":true,"meta":{"a":1}})");
  ASSERT_TRUE(gptq.ok()) << gptq.error().message;
  EXPECT_TRUE(gptq->zeros_less_one);
  EXPECT_EQ(gptq->group_size, 128);
  const auto mixed = quantization_of(R"({"quant_method":"gptq","bits":4,"group_size":128,)"
                                     R"("dynamic":{"-:.*q_proj.*":{},"+:.*down.*":{"bits":8}}})");
  EXPECT_EQ(mixed->bits, 0) << "the tensors say which modules have which bits";
  const auto whole = quantization_of(compressed(
      R"({"num_bits":8,"type":"int","strategy":"channel","symmetric":false,"actorder":"static"})",
      R"("kv_cache_scheme":{"num_bits":8},)"));
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  EXPECT_TRUE(whole->all_have_zeros && whole->rounds_activations);
  const auto blocks = quantization_of(R"({"quant_method":"fp8","weight_block_size":[128,64]})");
  EXPECT_EQ(blocks->block_rows, 128);
  EXPECT_EQ(blocks->block_columns, 64);
}

// A folder with one module beside floats.
class ForeignFolder : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& config) {
    fs::copy_file(golden_folder() / (name + ".safetensors"), folder_ / "model.safetensors",
                  fs::copy_options::overwrite_existing);
    put(folder_ / "config.json", config);
  }
  TemporaryFolder folder_;
};

TEST_F(ForeignFolder, WeightsHaveTheNamesOfFloats) {
  const Golden golden("gptq_4_g32");
  write("gptq_4_g32", Document{{"quantization_config", golden.entry}}.dump());
  const auto checkpoint = Checkpoint::open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors().size(), 2u);
  const auto weight = checkpoint->require("m.weight", {16, 64});
  ASSERT_TRUE(weight.ok()) << weight.error().message;
  EXPECT_EQ(checkpoint->parameters("m.weight"), 16 * 64);
  EXPECT_EQ(weight->size_bytes(), 16 * 64 / 2 + 16 * 2 * 2 + 16 * 2 / 2);
  for (const std::string_view word : {"GPTQ", "4 bits", "groups of 32", "1 matrices"}) {
    EXPECT_NE(checkpoint->foreign_text().find(word), std::string::npos) << word;
  }
  EXPECT_TRUE(fails_with(checkpoint->require("m.weight", {16, 63}), {"[16, 63]", "[16, 64]"}));
}

TEST_F(ForeignFolder, OlderFoldersHaveAFileOfTheirOwn) {
  write("gptq_4_g32", "{}");
  put(folder_ / "quantize_config.json", R"({"bits":4,"group_size":32,"desc_act":false})");
  EXPECT_TRUE(Checkpoint::open(folder_.path())->has("m.weight"));
  put(folder_ / "quantize_config.json", R"({"bits":3,"group_size":32})");
  EXPECT_TRUE(fails_with(Checkpoint::open(folder_.path()), {"quantize_config.json", "\"bits\""}));
  fs::remove(folder_ / "quantize_config.json");
  EXPECT_TRUE(Checkpoint::open(folder_.path())->has("m.qweight")) << "nobody says what it is";
  write("awq_gemm_g64", "{}");
  put(folder_ / "quant_config.json",
      R"({"zero_point":true,"q_group_size":64,"w_bit":4,"version":"GEMM"})");
  EXPECT_TRUE(Checkpoint::open(folder_.path())->has("m.weight"));
}

TEST_F(ForeignFolder, AnEntryOfOursIsNotForeign) {
  write("gptq_4_g32", R"({"quantization_config":{"quant_method":"neuronmm","bits":8}})");
  EXPECT_TRUE(Checkpoint::open(folder_.path())->has("m.qweight"));
}

}  // namespace
}  // namespace neuronmm::io
