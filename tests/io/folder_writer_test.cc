#include "io/folder_writer.h"

#include <set>

#include <unistd.h>

#include "io_test.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;
using IfExists = FolderWriter::IfExists;

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

class FolderWriterTest : public testing::Test {
 protected:
  // The folder "old" with a model in it.
  fs::path make_model(const std::string& name) const {
    fs::create_directories(root_ / name);
    put(root_ / name / "config.json", "old");
    return root_ / name;
  }
  TemporaryFolder root_;
};

TEST_F(FolderWriterTest, AppearsWithCommit) {
  auto writer = FolderWriter::create(root_ / "new/deep/out", IfExists::kRefuse);
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  EXPECT_EQ(writer->staging(), root_ / "new/deep/out.partial");
  put(writer->staging() / "config.json", "x");
  EXPECT_FALSE(fs::exists(root_ / "new/deep/out"));
  ASSERT_TRUE(writer->commit().ok());
  EXPECT_EQ(names_in(root_ / "new/deep"), std::set<std::string>{"out"});
  EXPECT_EQ(get(root_ / "new/deep/out/config.json"), "x");
}

TEST_F(FolderWriterTest, ExistingFoldersAreRefusedOrReplacedWhole) {
  const fs::path old = make_model("old");
  put(old / "stale", "");
  EXPECT_TRUE(
      fails_with(FolderWriter::create(old, IfExists::kRefuse), {old.string(), "already exists"}));
  auto writer = FolderWriter::create(old / "", IfExists::kReplace);  // a slash at the end
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  put(writer->staging() / "config.json", "new");
  ASSERT_TRUE(writer->commit().ok());
  EXPECT_EQ(names_in(root_.path()), std::set<std::string>{"old"});
  EXPECT_EQ(names_in(old), std::set<std::string>{"config.json"});
  EXPECT_EQ(get(old / "config.json"), "new");
}

TEST_F(FolderWriterTest, WhatIsNoModelFolderIsNeverReplaced) {
  fs::create_directories(root_ / "home");
  put(root_ / "home" / "thesis.tex", "");
  EXPECT_TRUE(fails_with(FolderWriter::create(root_ / "home", IfExists::kReplace),
                         {"home", "not replaced", "config.json"}));
  put(root_ / "file", "");
  EXPECT_TRUE(fails_with(FolderWriter::create(root_ / "file", IfExists::kReplace),
                         {"file", "an output folder"}));
  fs::create_directories(root_ / "empty");
  EXPECT_TRUE(FolderWriter::create(root_ / "empty", IfExists::kReplace).ok());
}

TEST_F(FolderWriterTest, AFolderThatAppearsMeanwhileIsKept) {
  auto writer = FolderWriter::create(root_ / "out", IfExists::kRefuse);
  ASSERT_TRUE(writer.ok());
  make_model("out");
  EXPECT_TRUE(fails_with(writer->commit(), {"already exists"}));
  EXPECT_EQ(get(root_ / "out" / "config.json"), "old");
}

TEST_F(FolderWriterTest, AFailedCommitRestoresTheOldFolder) {
  const fs::path old = make_model("old");
  auto writer = FolderWriter::create(old, IfExists::kReplace);
  ASSERT_TRUE(writer.ok());
  fs::remove_all(writer->staging());  // nothing to rename
  EXPECT_TRUE(fails_with(writer->commit(), {"old.partial", "No such file"}));
  EXPECT_EQ(names_in(root_.path()), std::set<std::string>{"old"});
  EXPECT_EQ(get(old / "config.json"), "old");
}

TEST_F(FolderWriterTest, TheInputFolderIsNeverTheOutput) {
  const fs::path in = make_model("in");
  fs::create_directories(in / "sub");
  fs::create_directory_symlink(in, root_ / "link");
  make_model("out.partial");
  const auto create = [&](const fs::path& out, const fs::path& input) {
    return FolderWriter::create(out, IfExists::kReplace, input);
  };
  EXPECT_TRUE(fails_with(create(in, in), {"outside the input folder"}));
  EXPECT_TRUE(fails_with(create(root_ / "x/../in/", in), {"outside the input folder"}));
  EXPECT_TRUE(fails_with(create(root_ / "link", in), {"outside the input folder"}));
  EXPECT_TRUE(fails_with(create(in / "sub/out", in), {"outside the input folder"}));
  EXPECT_TRUE(fails_with(create(in, in / "sub"), {"outside the input folder"}));
  EXPECT_TRUE(fails_with(create(root_ / "out", root_ / "out.partial"), {"outside the input"}));
  EXPECT_TRUE(fails_with(create("", in), {"empty"}));
  EXPECT_TRUE(create(root_ / "in2", in).ok()) << "a common prefix is no nesting";
}

TEST_F(FolderWriterTest, AnInterruptedRunsFilesAreKeptButNotItsHalfFiles) {
  {
    auto writer = FolderWriter::create(root_ / "out", IfExists::kRefuse);
    put(writer->staging() / "layer-0", "done");
    put(writer->staging() / "layer-1.tmp", "half");
  }
  auto writer = FolderWriter::create(root_ / "out", IfExists::kRefuse);
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(names_in(writer->staging()), std::set<std::string>{"layer-0"});
  writer->discard();
  EXPECT_TRUE(fs::is_empty(root_.path()));
}

TEST_F(FolderWriterTest, CopiesWhatIsNotWeights) {
  const fs::path in = make_model("in");
  for (const std::string name :
       {"tokenizer.json", "README.md", "notes.txt", "merges.txt", "LICENSE.txt", "NOTICE.md",
        "generation_config.json", "model.safetensors", "model.safetensors.index.json",
        "pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth", "model.gguf",
        "tf_model.h5", ".gitattributes"})
    put(in / name, "from " + name);
  fs::create_directories(in / "original");
  fs::create_symlink(in / "tokenizer.json", in / "linked.json");  // as in the Hugging Face cache
  fs::create_symlink(in / "nowhere", in / "dangling.txt");
  auto writer = FolderWriter::create(root_ / "out", IfExists::kRefuse, in);
  ASSERT_TRUE(writer.ok());
  put(writer->staging() / "config.json", "ours");
  ASSERT_TRUE(writer->copy_other_files(in).ok());
  EXPECT_EQ(names_in(writer->staging()),
            (std::set<std::string>{"config.json", "tokenizer.json", "linked.json", "merges.txt",
                                   "LICENSE.txt", "NOTICE.md", "generation_config.json"}));
  EXPECT_EQ(get(writer->staging() / "config.json"), "ours");
  EXPECT_EQ(get(writer->staging() / "tokenizer.json"), "from tokenizer.json");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(writer->staging() / "linked.json")));
}

TEST_F(FolderWriterTest, CopyErrorsAreReported) {
  auto writer = FolderWriter::create(root_ / "out", IfExists::kRefuse);
  ASSERT_TRUE(writer.ok());
  EXPECT_TRUE(fails_with(writer->copy_other_files(root_ / "absent"), {"absent", "No such file"}));
  const fs::path in = make_model("in");
  fs::remove_all(writer->staging());
  EXPECT_TRUE(fails_with(writer->copy_other_files(in), {"config.json", "cannot be written"}));
}

TEST_F(FolderWriterTest, UnwritableParentsAreNamed) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  fs::create_directories(root_ / "locked");
  fs::permissions(root_ / "locked", fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_TRUE(fails_with(FolderWriter::create(root_ / "locked/out", IfExists::kRefuse),
                         {"locked/out.partial", "Permission denied"}));
}

TEST_F(FolderWriterTest, AFileAsParentIsNamed) {
  put(root_ / "file", "");
  EXPECT_TRUE(
      fails_with(FolderWriter::create(root_ / "file/out", IfExists::kRefuse), {"file/out"}));
}

}  // namespace
}  // namespace neuronmm::io
