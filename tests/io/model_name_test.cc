// Tests which folder or file a model's name leads to, in a cache that the tests lay out as
// huggingface_hub does.

#include "io/model_name.h"

#include <cstdlib>

#include "io/folder_writer.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;

class ModelName : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"})
      unsetenv(name);
    setenv("HF_HOME", root_.path().c_str(), 1);
  }
  void TearDown() override { unsetenv("HF_HOME"); }

  // Makes a snapshot with these files and returns its folder.
  fs::path snapshot(const std::string& repository, const std::string& revision,
                    std::initializer_list<const char*> files, bool is_main = true) const {
    const fs::path model = root_ / "hub" / repository;
    const fs::path folder = model / "snapshots" / revision;
    fs::create_directories(folder);
    for (const char* file : files) put(folder / file, "x");
    if (is_main) {
      fs::create_directories(model / "refs");
      put(model / "refs/main", revision);
    }
    return folder;
  }
  const TemporaryFolder root_;
};

TEST_F(ModelName, ANameLeadsToTheSnapshotThatMainNames) {
  snapshot("models--org--m", "0123abcd", {"config.json"}, /*is_main=*/false);
  const fs::path main = snapshot("models--org--m", "4567ef", {"config.json", "model.safetensors"});
  EXPECT_EQ(find_model("org/m"), main);
  // The end of the file may be a newline.
  put(root_ / "hub/models--org--m/refs/main", "0123abcd\n");
  EXPECT_EQ(find_model("org/m").filename(), "0123abcd");
  put(root_ / "hub/models--org--m/refs/main", "../../../elsewhere");
  EXPECT_EQ(find_model("org/m"), "org/m");
}

TEST_F(ModelName, TheOnlySnapshotNeedsNoMain) {
  const fs::path only = snapshot("models--org--m", "89", {"config.json"}, /*is_main=*/false);
  EXPECT_EQ(find_model("org/m"), only);
  snapshot("models--org--m", "90", {"config.json"}, /*is_main=*/false);
  EXPECT_EQ(find_model("org/m"), "org/m");
}

TEST_F(ModelName, EveryVariableThatMovesTheCacheIsKnown) {
  const fs::path here = snapshot("models--a--b", "1", {"config.json"});
  setenv("HF_HOME", (root_ / "absent").c_str(), 1);
  EXPECT_EQ(find_model("a/b"), "a/b");
  setenv("HF_HUB_CACHE", (root_ / "hub").c_str(), 1);
  EXPECT_EQ(find_model("a/b"), here);
  unsetenv("HF_HUB_CACHE");
  unsetenv("HF_HOME");
  fs::create_directory(root_ / "huggingface");
  fs::rename(root_ / "hub", root_ / "huggingface/hub");
  setenv("XDG_CACHE_HOME", root_.path().c_str(), 1);
  EXPECT_EQ(find_model("a/b"), root_ / "huggingface/hub/models--a--b/snapshots/1");
  unsetenv("XDG_CACHE_HOME");
}

TEST_F(ModelName, ARepositoryOfGgufFilesLeadsToAFile) {
  const fs::path one = snapshot("models--o--one", "1", {"m-Q4_K_M.gguf", "mmproj-F16.gguf"});
  EXPECT_EQ(find_model("o/one"), one / "m-Q4_K_M.gguf");
  const fs::path split =
      snapshot("models--o--split", "1", {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"});
  EXPECT_EQ(find_model("o/split"), split / "m-00001-of-00002.gguf");
  const fs::path many = snapshot("models--o--many", "1", {"m-Q4_0.gguf", "m-Q8_0.gguf"});
  EXPECT_EQ(find_model("o/many"), many);
  EXPECT_EQ(find_model("o/many:q8_0"), many / "m-Q8_0.gguf");
  EXPECT_EQ(find_model("o/many:Q"), many);
  EXPECT_EQ(find_model("o/many/m-Q4_0.gguf"), many / "m-Q4_0.gguf");
  EXPECT_EQ(find_model("o/many/absent.gguf"), "o/many/absent.gguf");
  EXPECT_EQ(find_model("o/many/../x.gguf"), "o/many/../x.gguf");
  EXPECT_EQ(gguf_models_in(split), std::vector<std::string>{"m-00001-of-00002.gguf"});
}

TEST_F(ModelName, PathsThatExistComeFirst) {
  snapshot("models--folder--m", "1", {"config.json"});
  const fs::path before = fs::current_path();
  fs::current_path(root_.path());
  fs::create_directories("folder/m");
  EXPECT_EQ(find_model("folder/m"), "folder/m");
  put("folder/m/model.gguf", "x");
  EXPECT_EQ(find_model("folder/m"), "folder/m/model.gguf");
  put("folder/m/config.json", "{}");
  EXPECT_EQ(find_model("folder/m"), "folder/m");
  EXPECT_EQ(find_model("folder/m/model.gguf"), "folder/m/model.gguf");
  fs::current_path(before);
}

TEST_F(ModelName, AMissingModelIsToBeDownloaded) {
  EXPECT_EQ(find_model("org/absent"), "org/absent");
  EXPECT_TRUE(fails_with(require_folder("org/absent"),
                         {"org/absent: there is no such folder, and the Hugging Face cache ",
                          "/hub has no model of this name; download it with: hf download "
                          "org/absent"}));
  snapshot("models--org--m", "1", {"a.gguf"});
  EXPECT_TRUE(fails_with(require_folder("org/m/b.gguf"),
                         {"snapshots/1 does not have the file", "hf download org/m b.gguf"}));
  for (const char* name : {"absent", "/org/absent", "a/b/c", "../x", "a b/c", "org/m:"})
    EXPECT_EQ(missing_model_hint(name), "") << name;
}

}  // namespace
}  // namespace neuronmm::io
