// Tests the messages for files and folders that are mistaken for a model. Each case is a small file
// or folder of that kind.

#include "io/mistaken_files.h"

#include "config_text.h"
#include "io/checkpoint.h"
#include "io/model_config.h"
#include "io/model_folder.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

constexpr const char* kWeights = "model.safetensors";

class MistakenFiles : public testing::Test {
 protected:
  // Makes a folder with these empty files.
  fs::path folder_with(const std::string& name, std::initializer_list<std::string> files) const {
    const fs::path folder = root_ / name;
    fs::create_directories(folder);
    for (const std::string& file : files) put(folder / file, "");
    return folder;
  }
  void put_config(const fs::path& folder) const {
    put(folder / "config.json", small_config().dump());
  }
  const TemporaryFolder root_;
};

TEST_F(MistakenFiles, AFileIsRecognizedByItsFirstBytes) {
  std::string tar(512, '\0');
  tar.replace(0, 11, "config.json").replace(257, 5, "ustar");
  const std::pair<std::string, std::string> cases[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
       "a Git LFS pointer in place of the file; run `git lfs pull` there"},
      {"/annex/objects/SHA256E-s12--ab.safetensors\n", "run `git annex get`"},
      {"<!DOCTYPE html>\n<html><head><title>Sign in</title>", "a web page in place of the file"},
      {"  \n<HTML>", "/resolve/ and not /blob/"},
      {"GGUF\3\0\0\0"s, "neuronmm import FILE -o DIR"},
      {"PK\3\4\0\0\0\0\x08"s, "a zip archive or a PyTorch file"},
      {"\x80\2}q\0.    "s, "a Python pickle"},
      {"\x1f\x8b\x08\0\0\0\0\0\0\3"s, "a gzip archive; unpack it"},
      {tar, "a tar archive; unpack it"},
      {"\x89HDF\r\n\x1a\n", "HDF5"},
      {"", "an empty file; download it again"},
      {std::string(100, '\0'), "zeros only; download it again"},
      {"Entry not found\n", "a text that begins with \"Entry not found\""},
      {"Invalid username or password.", "\"Invalid username or password.\""}};
  for (const auto& [bytes, words] : cases) {
    EXPECT_NE(describe_mistaken_file(bytes).find(words), std::string::npos)
        << words << " in: " << describe_mistaken_file(bytes);
    put(root_ / kWeights, bytes);
    if (!bytes.empty()) {
      EXPECT_TRUE(fails_with(Checkpoint::open(root_.path()),
                             {kWeights, "expected a safetensors file, found", words}));
    }
    if (bytes.starts_with("GGUF")) continue;
    put(root_ / "config.json", bytes);
    EXPECT_TRUE(fails_with(ModelConfig::load(root_ / "config.json"),
                           {"config.json: expected JSON, found", words}));
  }
  for (const char* known : {"{\"a\": 1}", "[1", "\n {", "\"text"})
    EXPECT_EQ(describe_mistaken_file(known), "") << known;
}

TEST_F(MistakenFiles, AnIncompleteDownloadIsNamed) {
  const std::string whole =
      safetensors_bytes(R"({"a":{"dtype":"U8","shape":[64],"data_offsets":[0,64]}})", 64);
  for (const size_t size : {whole.size() - 1, size_t{40}, size_t{9}}) {
    put(root_ / kWeights, whole.substr(0, size));
    EXPECT_TRUE(fails_with(Checkpoint::open(root_.path()), {kWeights, "incomplete download"}))
        << size;
  }
}

TEST_F(MistakenFiles, ALinkSaysWhereItLeads) {
  fs::create_symlink(".git/annex/objects/x1/SHA256E-s9--ab/SHA256E-s9--ab", root_ / kWeights);
  EXPECT_TRUE(fails_with(Checkpoint::open(root_.path()),
                         {kWeights, "a link to .git/annex", "run `git annex get`"}));
  fs::create_symlink("../../blobs/0123", root_ / "config.json");
  EXPECT_TRUE(fails_with(ModelConfig::load(root_ / "config.json"),
                         {"config.json", "a link to ../../blobs/0123", "download"}));
}

TEST_F(MistakenFiles, AFolderIsRecognizedByWhatItHolds) {
  const std::pair<fs::path, std::string> cases[] = {
      {folder_with("pickle", {"pytorch_model.bin"}), "save_pretrained(NEW)"},
      {folder_with("old", {"consolidated.00.pth", "params.json"}), "Python pickles"},
      {folder_with("onnx", {"model.onnx", "model.onnx_data"}), "a model of ONNX"},
      {folder_with("keras", {"tf_model.h5"}), "another framework"},
      {folder_with("zip", {"model.zip"}), "model.zip is an archive; unpack it"},
      {folder_with("tar", {"model.tar.gz"}), "model.tar.gz is an archive; unpack it"},
      {folder_with("part", {"model.safetensors.incomplete"}), "an unfinished download"},
      {folder_with("tokenizer", {"tokenizer.json", "tokenizer_config.json"}),
       "a tokenizer without a model"},
      {folder_with("mistral", {"consolidated.safetensors", "tekken.json"}), "Mistral's own layout"},
      {folder_with("gguf", {"a.gguf"}), "there is a.gguf in it; name the file: "},
      {folder_with("shards", {"model-00001-of-00002.safetensors"}), "index.json is missing"}};
  for (const auto& [folder, words] : cases) {
    EXPECT_TRUE(fails_with(open_model(folder), {folder.string(), "config.json", words}));
    put_config(folder);
    EXPECT_TRUE(fails_with(open_model(folder), {folder.string(), words})) << words;
  }
  EXPECT_EQ(describe_mistaken_folder(folder_with("empty", {})), "");
  const fs::path config = folder_with("config", {});
  put_config(config);
  EXPECT_TRUE(fails_with(open_model(config), {"a config without weights", "whole folder"}));
}

TEST_F(MistakenFiles, AFolderAboveTheModelNamesTheModel) {
  const fs::path model = folder_with("models--a--b/snapshots/0123", {kWeights});
  put_config(model);
  EXPECT_TRUE(
      fails_with(open_model(root_ / "models--a--b"), {"the model is in " + model.string()}));
  EXPECT_TRUE(fails_with(open_model(root_ / "models--a--b/snapshots"), {model.string()}));
}

TEST_F(MistakenFiles, AnAdapterIsRefusedWithAdvice) {
  const std::string whole =
      safetensors_bytes(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1);
  for (const std::string name : {"adapter_config.json", "adapter_model.safetensors",
                                 "adapter_model.bin", "adapters.safetensors"}) {
    const fs::path beside = folder_with("beside-" + name, {name}),
                   alone = folder_with(name, {name});
    put_config(beside);
    put(beside / kWeights, whole);
    EXPECT_TRUE(fails_with(open_model(beside),
                           {"a LoRA adapter", name, "beside weights", "--adapter DIR -o NEW"}));
    EXPECT_TRUE(fails_with(Checkpoint::open(beside), {"a LoRA adapter"}));
    EXPECT_TRUE(fails_with(open_model(alone), {"a LoRA adapter", name, "no model", "--adapter"}));
  }
  const fs::path named = folder_with("named", {});
  put(named / "adapter_config.json",
      R"({"base_model_name_or_path": "Qwen/Qwen2.5-0.5B", "peft_type": "LORA"})");
  EXPECT_TRUE(fails_with(open_model(named), {"a LoRA adapter for \"Qwen/Qwen2.5-0.5B\""}));
}

}  // namespace
}  // namespace neuronmm::io
