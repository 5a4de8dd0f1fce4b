// Imports the GGUF files of tiny models of all families, as llama.cpp's converter writes them
// (tests/slow/families/gguf_of_families.py), and compares their logits with transformers.

#include "cpu/backend.h"
#include "gguf/family_gguf.h"
#include "gguf/import.h"
#include "io/io_test.h"
#include "ops/reference.h"

namespace neuronmm::gguf {
namespace {

TEST(GgufFamilies, LogitsAreThoseOfTransformers) {
  const io::TemporaryFolder root;
  const auto reference = ops::make_reference_backend();
  int files = 0;
  for (const auto& path : model::family_goldens()) {
    SCOPED_TRACE(path.filename().string());
    const model::FamilyGolden golden(path);
    if (!golden.json.contains("gguf")) continue;
    ++files;
    io::put(root / "m.gguf", file_of(golden).bytes());
    Progress silent;
    const auto summary = import_model(root / "m.gguf", root / "out", DType::kF32, true, silent);
    ASSERT_TRUE(summary.ok()) << summary.error().message;
    const auto transformer = model::Transformer::load(root / "out", *reference);
    ASSERT_TRUE(transformer.ok()) << transformer.error().message;
    golden.expect_logits(*transformer, golden.tokens,
                         model::decoded_floats(golden.json.at("logits").get<std::string>()));
  }
  EXPECT_GE(files, 30);
}

// Mixtral's file, whose tensors tests change before they open it.
class MixtralFile : public testing::Test {
 protected:
  MixtralFile() : golden_(source_dir() / "tests/model/families/mixtral.json") {}

  nlohmann::json& tensors() { return golden_.json["gguf"]["tensors"]; }
  // Replaces the tensor of all experts by one for each, as in files before 2024.
  void divide(const std::string& stacked, const std::string& start) {
    const nlohmann::json names = tensors().at(stacked).at("from");
    tensors().erase(stacked);
    for (size_t i = 0; i < names.size(); ++i)
      tensors()[fmt::format("{}.{}.weight", start, i)] = {{"from", names[i]}};
  }
  Result<ImportSummary> import() const {
    io::put(root_ / "m.gguf", file_of(golden_).bytes());
    Progress silent;
    return import_model(root_ / "m.gguf", root_ / "out", DType::kF32, true, silent);
  }

  const io::TemporaryFolder root_;
  model::FamilyGolden golden_;
};

TEST_F(MixtralFile, MayHaveATensorForEachExpert) {
  for (const std::string layer : {"0", "1"}) {
    for (const std::string part : {"gate", "up", "down"})
      divide("blk." + layer + ".ffn_" + part + "_exps.weight", "blk." + layer + ".ffn_" + part);
  }
  const auto imported = import();
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  const auto backend = ops::make_reference_backend();
  const auto transformer = model::Transformer::load(root_ / "out", *backend);
  ASSERT_TRUE(transformer.ok()) << transformer.error().message;
  golden_.expect_logits(*transformer, golden_.tokens,
                        model::decoded_floats(golden_.json.at("logits").get<std::string>()));
  const nlohmann::json spare = tensors()["blk.1.ffn_up.2.weight"];
  tensors().erase("blk.1.ffn_up.2.weight");
  EXPECT_TRUE(io::fails_with(import(), {"tensor \"blk.1.ffn_up.2.weight\" is missing"}));
  tensors()["blk.1.ffn_up.2.weight"] = spare;
  tensors()["blk.1.ffn_up.5.weight"] = spare;
  EXPECT_TRUE(io::fails_with(import(), {"blk.1.ffn_up.5.weight"}));
}

TEST_F(MixtralFile, WithoutTheExpertsOfALayerIsRefused) {
  tensors().erase("blk.1.ffn_down_exps.weight");
  EXPECT_TRUE(io::fails_with(import(), {"tensor \"blk.1.ffn_down_exps.weight\" is missing"}));
}

TEST_F(MixtralFile, WithExpertsInOneTensorAndOneByOneIsRefused) {
  const nlohmann::json& names = tensors().at("blk.0.ffn_gate_exps.weight").at("from");
  tensors()["blk.0.ffn_gate.3.weight"] = {{"from", names[3]}};
  EXPECT_TRUE(io::fails_with(import(), {"either in one tensor or one by one",
                                        "blk.0.ffn_gate_exps.weight", "blk.0.ffn_gate.3.weight"}));
}

TEST_F(MixtralFile, WithMoreExpertsThanItsKeySaysIsRefused) {
  nlohmann::json& names = tensors().at("blk.0.ffn_gate_exps.weight").at("from");
  names.push_back(names[0]);
  EXPECT_TRUE(
      io::fails_with(import(), {"blk.0.ffn_gate_exps.weight", "[5, 80, 64]", "[6, 80, 64]"}));
}

}  // namespace
}  // namespace neuronmm::gguf
