// Tests making output folders: what is refused, what is replaced, and what a killed run leaves.

#include "io/folder_writer.h"

#include <csignal>
#include <functional>
#include <set>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config_text.h"
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

// Runs `work` in a process that is killed while the result of work() lives, so that no destructor
// cleans up.
template <typename Work>
void run_and_kill(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    const auto unfinished = work();
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
}

class FolderWriterTest : public testing::Test {
 protected:
  fs::path make_model(const std::string& name) const {
    fs::create_directories(root_ / name);
    put(root_ / name / "config.json", kOldConfig);
    put(root_ / name / "model.safetensors", "");
    return root_ / name;
  }
  // Does what a commit does until the new folder is in place and the old one in the staging folder.
  void exchange_in_commit(const fs::path& out) const {
    const fs::path partial = out.string() + ".partial";
    const auto staging = StagingFolder::find(partial);
    ASSERT_TRUE(staging.ok() && staging.value());
    ASSERT_TRUE(staging.value()->mark_commit(*inode_of(staging.value()->model())).ok());
    fs::rename(out, partial / "old");
    fs::rename(partial / "model", out);
    fs::rename(partial / "old", partial / "model");
  }
  const std::string kOldConfig = config_with(R"({"vocab_size": 77})");
  TemporaryFolder root_;
};

TEST_F(FolderWriterTest, TheOutputAppearsWithCommit) {
  auto writer = FolderWriter::create(root_ / "new/deep/out", IfExists::kRefuse);
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  EXPECT_EQ(writer->staging(), root_ / "new/deep/out.partial/model");
  put(writer->staging() / "config.json", "x");
  EXPECT_FALSE(fs::exists(root_ / "new/deep/out"));
  ASSERT_TRUE(writer->commit().ok());
  EXPECT_EQ(names_in(root_ / "new/deep"), std::set<std::string>{"out"});
  EXPECT_EQ(get(root_ / "new/deep/out/config.json"), "x");
}

TEST_F(FolderWriterTest, LinksToNothingAndFoldersAroundTheInputAreRefused) {
  fs::create_symlink(root_ / "nowhere", root_ / "link");
  EXPECT_TRUE(
      fails_with(FolderWriter::create(root_ / "link", IfExists::kRefuse), {"link to nothing"}));
  const fs::path input = make_model("around/input");
  EXPECT_TRUE(fails_with(FolderWriter::create(root_ / "around", IfExists::kReplace, input),
                         {"around", "lies in it"}));
}

TEST_F(FolderWriterTest, ExistingFoldersAreRefusedOrReplaced) {
  const fs::path old = make_model("old");
  put(old / "vocab.txt", "");
  EXPECT_TRUE(
      fails_with(FolderWriter::create(old, IfExists::kRefuse), {old.string(), "already exists"}));
  // The path ends with a slash.
  auto writer = FolderWriter::create(old / "", IfExists::kReplace);
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  put(writer->staging() / "config.json", "new");
  ASSERT_TRUE(writer->commit().ok());
  EXPECT_EQ(names_in(root_.path()), std::set<std::string>{"old"});
  EXPECT_EQ(names_in(old), std::set<std::string>{"config.json"});
  EXPECT_EQ(get(old / "config.json"), "new");
}

// A text, a hidden file, a folder, a link and a pipe of somebody else: each of them is named, and
// nothing in the folder changes.
TEST_F(FolderWriterTest, AModelFolderWithOtherFilesIsNotReplaced) {
  const std::function<void(const fs::path&)> makers[] = {
      [](const fs::path& path) { put(path, "mine"); },
      [](const fs::path& path) { fs::create_directories(path); },
      [](const fs::path& path) { fs::create_symlink("/etc/hostname", path); },
      [](const fs::path& path) { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); }};
  for (const char* name : {"thesis.tex", ".notes", "results.json", "adapter_model.safetensors",
                           "my-00001-of-00002.safetensors", "model-0001-of-0002.safetensors"}) {
    for (const auto& make : makers) {
      const fs::path old = make_model("old");
      make(old / name);
      EXPECT_TRUE(fails_with(FolderWriter::create(old, IfExists::kReplace),
                             {old.string(), "not replaced", name, "does not belong to a model"}));
      EXPECT_TRUE(fs::exists(fs::symlink_status(old / name)));
      EXPECT_EQ(names_in(root_.path()), std::set<std::string>{"old"});
      fs::remove_all(old);
    }
  }
  const fs::path old = make_model("old");
  fs::create_directories(old / "tokenizer.json");
  EXPECT_TRUE(fails_with(FolderWriter::create(old, IfExists::kReplace), {"tokenizer.json/"}));
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) put(old / name, "");
  EXPECT_TRUE(fails_with(FolderWriter::create(old, IfExists::kReplace),
                         {"holds a, b, c, d, e and 2 more"}));
}

// Files that `copy_model_files` has copied from the input may have any name.
TEST_F(FolderWriterTest, CopiesOfTheInputsFilesAreReplaced) {
  const fs::path in = make_model("in"), out = make_model("out");
  put(in / "unusual.json", "same");
  put(out / "unusual.json", "same");
  EXPECT_TRUE(FolderWriter::create(out, IfExists::kReplace, in).ok());
  EXPECT_TRUE(fails_with(FolderWriter::create(out, IfExists::kReplace), {"unusual.json"}));
  put(out / "unusual.json", "mine");
  EXPECT_TRUE(fails_with(FolderWriter::create(out, IfExists::kReplace, in), {"unusual.json"}));
}

TEST_F(FolderWriterTest, FilesOfOthersThatAppearMeanwhileStay) {
  const fs::path old = make_model("old");
  auto writer = FolderWriter::create(old, IfExists::kReplace);
  ASSERT_TRUE(writer.ok());
  put(writer->resume_folder() / "layer-0", "done");
  put(old / "thesis.tex", "mine");
  EXPECT_TRUE(fails_with(writer->commit(), {old.string(), "thesis.tex"}));
  EXPECT_EQ(get(old / "thesis.tex"), "mine");
  EXPECT_EQ(get(old / "config.json"), kOldConfig);
  EXPECT_EQ(get(root_ / "old.partial/work/layer-0"), "done");
}

// Whoever works in the old folder while it is replaced may put a file there after the last check.
TEST_F(FolderWriterTest, AFileInTheReplacedFolderIsNotDeleted) {
  const fs::path out = make_model("out");
  run_and_kill([&] {
    auto writer = FolderWriter::create(out, IfExists::kReplace);
    put(writer->staging() / "config.json", "new");
    return writer;
  });
  exchange_in_commit(out);
  put(root_ / "out.partial/model/thesis.tex", "mine");
  EXPECT_TRUE(fails_with(FolderWriter::create(out, IfExists::kRefuse),
                         {"out.partial/model", "thesis.tex", "not deleted"}));
  EXPECT_EQ(get(root_ / "out.partial/model/thesis.tex"), "mine");
  fs::remove(root_ / "out.partial/model/thesis.tex");
  EXPECT_TRUE(fails_with(FolderWriter::create(out, IfExists::kRefuse), {"already exists"}));
  EXPECT_EQ(names_in(root_.path()), std::set<std::string>{"out"});
}

TEST_F(FolderWriterTest, OnlyModelFoldersAreReplaced) {
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
  EXPECT_EQ(get(root_ / "out" / "config.json"), kOldConfig);
}

TEST_F(FolderWriterTest, AFailedCommitRestoresTheOldFolder) {
  const fs::path old = make_model("old");
  auto writer = FolderWriter::create(old, IfExists::kReplace);
  ASSERT_TRUE(writer.ok());
  // The commit finds nothing to rename.
  fs::remove_all(writer->staging());
  EXPECT_TRUE(fails_with(writer->commit(), {"old.partial", "No such file"}));
  EXPECT_EQ(get(old / "config.json"), kOldConfig);
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
  EXPECT_TRUE(fails_with(create(in, in / "sub"), {"lies in it"}));
  EXPECT_TRUE(fails_with(create(root_ / "out", root_ / "out.partial"), {"outside the input"}));
  EXPECT_TRUE(fails_with(create("", in), {"empty"}));
  EXPECT_TRUE(create(root_ / "in2", in).ok()) << "a common prefix is no nesting";
}

TEST_F(FolderWriterTest, AnInterruptedRunKeepsItsResumeFilesButNotItsOutput) {
  {
    auto writer = FolderWriter::create(root_ / "out", IfExists::kRefuse);
    put(writer->staging() / "model.safetensors", "half");
    put(writer->resume_folder() / "layer-0", "done");
  }
  auto writer = FolderWriter::create(root_ / "out", IfExists::kRefuse);
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  EXPECT_TRUE(fs::is_empty(writer->staging()));
  EXPECT_EQ(names_in(writer->resume_folder()), std::set<std::string>{"layer-0"});
  EXPECT_EQ(names_in(root_ / "out.partial"),
            (std::set<std::string>{"model", "neuronmm.json", "work"}));
}

TEST_F(FolderWriterTest, AFailedRunLeavesNothingWithoutWork) {
  {
    auto writer = FolderWriter::create(root_ / "out", IfExists::kRefuse);
    put(writer->staging() / "model.safetensors", "half");
    put(writer->resume_folder() / "settings.json", "{}");
    auto moved = std::move(writer.value());
    EXPECT_EQ(moved.staging(), root_ / "out.partial/model");
  }
  EXPECT_TRUE(fs::is_empty(root_.path()));
}

TEST_F(FolderWriterTest, OneRunAtATimeMakesAnOutput) {
  const auto first = FolderWriter::create(root_ / "out", IfExists::kRefuse);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(fails_with(FolderWriter::create(root_ / "out", IfExists::kReplace),
                         {"out.partial", "in use", fmt::format("process {}", getpid())}));
}

TEST_F(FolderWriterTest, StagingFoldersOfOthersAreRefusedByName) {
  for (const char* file : {"letter", "neuronmm.json"}) {
    const fs::path partial = root_ / (std::string(file) + ".partial");
    fs::create_directories(partial);
    put(partial / file, "{}");
    EXPECT_TRUE(fails_with(FolderWriter::create(root_ / file, IfExists::kReplace),
                           {partial.string(), "other files"}));
    EXPECT_EQ(get(partial / file), "{}");
  }
  put(root_ / "a.partial", "a file");
  EXPECT_TRUE(fails_with(FolderWriter::create(root_ / "a", IfExists::kReplace), {"a.partial"}));
  fs::create_directories(root_ / "real");
  fs::create_directory_symlink(root_ / "real", root_ / "b.partial");
  EXPECT_TRUE(fails_with(FolderWriter::create(root_ / "b", IfExists::kReplace), {"b.partial"}));
}

// Many folders hold some config.json, the home folder for example. They are no model folders.
TEST_F(FolderWriterTest, AForeignConfigDoesNotMakeAModelFolder) {
  fs::create_directories(root_ / ".docker");
  put(root_ / ".docker/config.json", R"({"auths": {}})");
  EXPECT_TRUE(fails_with(FolderWriter::create(root_ / ".docker", IfExists::kReplace),
                         {".docker", "not replaced", "config.json"}));
  fs::create_directories(root_ / "bare");
  put(root_ / "bare/config.json", kOldConfig);
  EXPECT_TRUE(fails_with(FolderWriter::create(root_ / "bare", IfExists::kReplace),
                         {"bare", "not replaced", "safetensors"}));
  EXPECT_EQ(names_in(root_.path()), (std::set<std::string>{".docker", "bare"}));
}

// A process was killed right after it had put the output in place. The next process must finish the
// commit, whatever it does itself.
TEST_F(FolderWriterTest, TheNextRunFinishesAKilledCommit) {
  const fs::path out = make_model("out");
  run_and_kill([&] {
    auto writer = FolderWriter::create(out, IfExists::kReplace);
    put(writer->staging() / "config.json", "new");
    put(writer->resume_folder() / "layer-0", "done");
    return writer;
  });
  exchange_in_commit(out);
  EXPECT_TRUE(fails_with(FolderWriter::create(out, IfExists::kRefuse), {"already exists"}));
  EXPECT_EQ(names_in(root_.path()), std::set<std::string>{"out"});
  EXPECT_EQ(get(out / "config.json"), "new");
}

// The process was killed between the two renames that replace a folder on file systems that cannot
// exchange folders.
TEST_F(FolderWriterTest, TheNextRunRestoresTheOutputOfAKilledCommit) {
  const fs::path out = make_model("out");
  run_and_kill([&] { return FolderWriter::create(out, IfExists::kReplace); });
  {
    const auto staging = StagingFolder::find(root_ / "out.partial");
    ASSERT_TRUE(staging.ok() && staging.value());
    ASSERT_TRUE(staging.value()->mark_commit(*inode_of(staging.value()->model())).ok());
    fs::rename(out, staging.value()->replaced());
  }
  EXPECT_TRUE(fails_with(FolderWriter::create(out, IfExists::kRefuse), {"already exists"}));
  EXPECT_EQ(get(out / "config.json"), kOldConfig);
}

TEST_F(FolderWriterTest, ForeignFilesInTheStagingFolderStay) {
  auto writer = FolderWriter::create(root_ / "out", IfExists::kRefuse);
  ASSERT_TRUE(writer.ok());
  put(root_ / "out.partial/notes.txt", "mine");
  ASSERT_TRUE(writer->commit().ok());
  EXPECT_EQ(get(root_ / "out.partial/notes.txt"), "mine");
}

// `import` makes such a folder of a vocabulary without weights.
TEST_F(FolderWriterTest, AFolderWithATokenizerOnlyIsReplaced) {
  fs::create_directories(root_ / "out");
  put(root_ / "out/tokenizer.json", "{}");
  put(root_ / "out/tokenizer_config.json", "{}");
  auto writer = FolderWriter::create(root_ / "out", IfExists::kReplace);
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  put(writer->staging() / "tokenizer.json", "[]");
  ASSERT_TRUE(writer->commit().ok());
  EXPECT_EQ(names_in(root_ / "out"), std::set<std::string>{"tokenizer.json"});
  put(root_ / "out/thesis.tex", "mine");
  EXPECT_TRUE(fails_with(FolderWriter::create(root_ / "out", IfExists::kReplace),
                         {"is not replaced", "not a model folder"}));
}

TEST_F(FolderWriterTest, UnwritableParentsAreNamed) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write anywhere: run this test as another user";
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
