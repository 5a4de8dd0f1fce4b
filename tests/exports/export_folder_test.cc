// Tests the folder of an export: its files, the weights in it, and the golden logits.
// tests/slow/export.sh tests the scripts of the folder on stand-ins for the SDK.

#include "exports/export_folder.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "eval/reference_file.h"
#include "exports/payload.h"
#include "io/text_file.h"
#include "model/tiny_model.h"
#include "ops/reference.h"
#include "places.h"

namespace neuronmm::exports {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

std::string content(const fs::path& path) {
  auto text = io::read_text_file(path, io::kMaxConfigBytes);
  return text.ok() ? *text : text.error().message;
}

class ExportFolderTest : public testing::Test {
 protected:
  ExportFolderTest() {
    config_ = model::tiny_config(io::Architecture::kLlama);
    config_.dtype = DType::kBF16;
    config_.compression = model::tiny_record("uv", {{4, 4, 4}, {4, 0, 4}});
    input_.write_tensors(model::random_tensors(config_, 3));
    input_.write_text("config.json", model::config_json(config_));
    input_.write_text("generation_config.json", "{\"eos_token_id\": 1}");
    input_.write_text("README.md", "the dense model's card");
  }

  fs::path out() const { return outputs_.path() / "out"; }

  Manifest manifest(Target target) const {
    Manifest manifest;
    manifest.target = target;
    manifest.choice = choose_release(target, "", "").value();
    manifest.version = "1.2.3";
    manifest.source = "tiny";
    manifest.config = config_;
    manifest.prompt_tokens = 32;
    manifest.new_tokens = 4;
    manifest.use = kernel_use(config_, target);
    manifest.dense = {.prefill_ms = 2, .decode_ms = 1, .request_ms = 6};
    manifest.factored = {.prefill_ms = 1, .decode_ms = 0.5, .request_ms = 3};
    if (target == Target::kVllmNeuron) {
      manifest.kernels.push_back({.file = "mlp_rank_4.py",
                                  .function = "mlp",
                                  .use = "prefill",
                                  .M = 32,
                                  .K = 16,
                                  .r = 4,
                                  .N = 24,
                                  .tolerance = 0.5,
                                  .source = "# a kernel\n"});
    }
    return manifest;
  }

  eval::ReferenceLogits golden() const {
    const auto transformer = model::Transformer::load(input_.path(), *backend_);
    const std::vector<std::vector<text::TokenId>> prompts = {{1, 2, 3}, {4}};
    Progress silent(nullptr);
    return eval::record_reference_logits(*transformer, prompts, 5, silent).value();
  }

  Status write(Target target) const {
    return write_export(input_.path(), out(), manifest(target), golden());
  }

  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(out())) {
      if (entry.is_regular_file()) names.insert(fs::relative(entry.path(), out()).string());
    }
    return names;
  }

  io::ModelConfig config_;
  model::ModelFolder input_, outputs_;
  std::unique_ptr<ops::Backend> backend_ = ops::make_reference_backend();
};

const std::set<std::string> kModelFiles = {
    "model/config.json",          "model/configuration_neuronmm.py", "model/generation_config.json",
    "model/modeling_neuronmm.py", "model/model.safetensors",         "model/neuronmm_mlp.py"};
const std::set<std::string> kFiles = {"README.md", "check_on_trainium.py", "common.py",
                                      "engine.py", "export.json",          "golden.safetensors",
                                      "run.py",    "neuronmm_mlp.py"};

std::set<std::string> joined(std::initializer_list<std::set<std::string>> sets) {
  std::set<std::string> all;
  for (const auto& set : sets) all.insert(set.begin(), set.end());
  return all;
}

TEST_F(ExportFolderTest, HasExactlyTheFilesOfTheTarget) {
  ASSERT_TRUE(write(Target::kVllmNeuron).ok());
  EXPECT_EQ(files(),
            joined({kFiles,
                    kModelFiles,
                    {"kernels/kernels.json", "kernels/mlp_rank_4.py", "plugin/pyproject.toml",
                     "plugin/neuronmm_vllm/__init__.py", "plugin/neuronmm_vllm/factory.py",
                     "plugin/neuronmm_vllm/kernels.py", "plugin/neuronmm_vllm/model.py",
                     "plugin/neuronmm_vllm/neuronmm_mlp.py"}}));
  EXPECT_EQ(content(out() / "kernels/mlp_rank_4.py"), "# a kernel\n");
  const json kernels = json::parse(content(out() / "kernels/kernels.json"));
  EXPECT_EQ(kernels[0]["shape"], json({{"M", 32}, {"K", 16}, {"r", 4}, {"N", 24}}));
  fs::remove_all(out());
  ASSERT_TRUE(write(Target::kNxdi).ok());
  EXPECT_EQ(files(), joined({kFiles, kModelFiles, {"nxdi_model.py"}}));
}

TEST_F(ExportFolderTest, ThePayloadIsThatOfTheSources) {
  const fs::path sources = source_dir() / "python";
  size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(sources / "export")) {
    if (entry.path().extension() == ".py" || entry.path().extension() == ".toml") ++count;
  }
  EXPECT_EQ(all_payload().size(), count);
  for (const PayloadFile& file : all_payload()) {
    EXPECT_EQ(file.text, content(sources / "export" / file.path)) << file.path;
  }
  EXPECT_EQ(payload(Target::kNxdi).front().text, content(sources / "transformers/neuronmm_mlp.py"));
}

TEST_F(ExportFolderTest, WeightsAreLinkedAndTheArchitectureIsOurs) {
  ASSERT_TRUE(write(Target::kNxdi).ok());
  EXPECT_TRUE(
      fs::equivalent(out() / "model/model.safetensors", input_.path() / "model.safetensors"));
  const json config = json::parse(content(out() / "model/config.json"));
  EXPECT_EQ(config["architectures"], json({"NeuronmmLlamaForCausalLM"}));
  EXPECT_EQ(config["model_type"], "neuronmm_llama");
  EXPECT_EQ(config["neuronmm_compression"]["ranks"][1]["up"], 0);
  const json exported = json::parse(content(out() / "export.json"));
  EXPECT_EQ(exported["model"]["model_type"], config["model_type"]);
  EXPECT_EQ(exported["sequence_length"], 36);
  EXPECT_EQ(exported["predicted"]["factored"]["token_generation_model"], 0.5);
}

TEST_F(ExportFolderTest, SequencesOfThePluginAreWholeTilesOnTwoCores) {
  Manifest long_one = manifest(Target::kVllmNeuron);
  for (const auto& [tokens, length] : {std::pair{220, 256}, {224, 256}, {225, 512}}) {
    long_one.prompt_tokens = tokens;
    long_one.new_tokens = 32;
    EXPECT_EQ(sequence_length(long_one), length) << tokens;
  }
}

// The expected checksum is Python's zlib.crc32, which check_on_trainium.py computes.
TEST_F(ExportFolderTest, ListsItsFilesWithSizesAndChecksums) {
  ASSERT_TRUE(write(Target::kVllmNeuron).ok());
  const json listed = json::parse(content(out() / "export.json"))["files"];
  std::set<std::string> names;
  for (const auto& [name, entry] : listed.items()) {
    names.insert(name);
    EXPECT_EQ(entry["bytes"], fs::file_size(out() / name)) << name;
  }
  names.insert("export.json");
  EXPECT_EQ(names, files());
  EXPECT_EQ(listed["kernels/mlp_rank_4.py"], json({{"bytes", 11}, {"crc32", 1730731340U}}));
  EXPECT_FALSE(listed["model/model.safetensors"].contains("crc32"));
}

// The golden logits must be those of the exported folder, computed again for the exported tokens.
TEST_F(ExportFolderTest, GoldenLogitsAreTheReferenceBackends) {
  ASSERT_TRUE(write(Target::kNxdi).ok());
  const auto recorded = eval::read_reference_logits(out() / "golden.safetensors", config_);
  ASSERT_TRUE(recorded.ok()) << recorded.error().message;
  ASSERT_EQ(recorded->size(), 2U);
  const auto transformer = model::Transformer::load(out() / "model", *backend_);
  ASSERT_TRUE(transformer.ok()) << transformer.error().message;
  for (const eval::ReferenceSequence& sequence : *recorded) {
    const Matrix expected =
        eval::position_logits(*transformer, sequence.tokens, sequence.first_position);
    ASSERT_EQ(expected.rows(), 5);
    ASSERT_EQ(sequence.logits.rows(), 5);
    const auto count = static_cast<size_t>(5 * config_.vocab_size);
    EXPECT_TRUE(std::ranges::equal(std::span(sequence.logits.data(), count),
                                   std::span(expected.data(), count)));
  }
}

TEST_F(ExportFolderTest, TheReadmeSaysThatNobodyHasRunTheExport) {
  ASSERT_TRUE(write(Target::kVllmNeuron).ok());
  const std::string readme = content(out() / "README.md");
  EXPECT_THAT(readme, HasSubstr("**Never run on a Trainium.**"));
  EXPECT_THAT(readme, HasSubstr("| 2.33 | nki 0.7, vllm 0.29, vllm-neuron 0.29 | trn2, trn3 | this "
                                "export |"));
  EXPECT_THAT(readme, HasSubstr("| prefill | 2.000 | 1.000 | 2.000 | | | |"));
  EXPECT_THAT(readme, HasSubstr("layers 1: plain torch products without our fused kernel"));
}

TEST_F(ExportFolderTest, ExistingFoldersStayAndErrorsLeaveNothing) {
  fs::create_directory(out());
  const Status exists = write(Target::kNxdi);
  ASSERT_FALSE(exists.ok());
  EXPECT_EQ(exists.error().message,
            out().string() + ": already exists; name another folder, or remove it");
  EXPECT_EQ(exists.error().kind, Error::Kind::kFailure);  // no flag replaces the folder
  fs::remove(out());
  const eval::ReferenceLogits logits = golden();
  fs::remove(input_.path() / "config.json");
  EXPECT_FALSE(write_export(input_.path(), out(), manifest(Target::kNxdi), logits).ok());
  EXPECT_TRUE(fs::is_empty(outputs_.path()));
  EXPECT_FALSE(
      write_export(input_.path(), input_.path() / "in", manifest(Target::kNxdi), logits).ok());
  EXPECT_FALSE(fs::exists(input_.path() / "in"));
}

}  // namespace
}  // namespace neuronmm::exports
