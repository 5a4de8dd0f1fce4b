// Tests files of llama.cpp in the places of model folders, config files and texts.

#include "io/gguf.h"

#include "io/checkpoint.h"
#include "io/folder_writer.h"
#include "io/model_config.h"
#include "io/text_file.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

class Gguf : public testing::Test {
 protected:
  const TemporaryFolder root_;
  const std::string bytes_ = std::string("GGUF\3\0\0\0\7\0\0\0\0\0\0\0", 16);
};

TEST_F(Gguf, AGgufFileIsNamedWhereAModelIsExpected) {
  put(root_ / "model.gguf", bytes_);
  put(root_ / "renamed.bin", bytes_);
  for (const auto& file : {root_ / "model.gguf", root_ / "renamed.bin"}) {
    const std::string words = file.string() + ": is a GGUF file; expected a model folder";
    EXPECT_TRUE(fails_with(require_folder(file), {words}));
    EXPECT_TRUE(fails_with(Checkpoint::open(file), {words}));
    EXPECT_TRUE(fails_with(ModelConfig::load(file / "config.json"), {words}));
    EXPECT_TRUE(fails_with(ModelConfig::load(file), {words}));
    EXPECT_TRUE(fails_with(read_user_text(file), {"is a GGUF file", "expected a text"}));
  }
}

TEST_F(Gguf, GgufFilesAreNamedIfAFolderHasNoModel) {
  put(root_ / "b.gguf", bytes_);
  put(root_ / "a.gguf", bytes_);
  EXPECT_TRUE(fails_with(
      ModelConfig::load(root_ / "config.json"),
      {"config.json: is absent", "there are a.gguf, b.gguf in it; name one of them: ", "/a.gguf"}));
  EXPECT_TRUE(
      fails_with(Checkpoint::open(root_.path()), {"found a.gguf, b.gguf", "name one of them: "}));
}

TEST_F(Gguf, TextsThatBeginWithGgufAreTexts) {
  put(root_ / "a.txt", "GGUF is a format of llama.cpp.");
  put(root_ / "b.txt", "GGUF");
  EXPECT_EQ(*read_user_text(root_ / "a.txt"), "GGUF is a format of llama.cpp.");
  EXPECT_EQ(*read_user_text(root_ / "b.txt"), "GGUF");
  EXPECT_TRUE(refuse_gguf(root_ / "absent.gguf", "x").ok());
}

}  // namespace
}  // namespace neuronmm::io
