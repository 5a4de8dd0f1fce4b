// This file tests what is said about the work of an interrupted run, and that no command deletes
// the work of another one without being asked to.

#include "io/unfinished_work.h"

#include <nlohmann/json.hpp>

#include "io/file_identity.h"
#include "io/folder_writer.h"
#include "io_test.h"

namespace neuronmm::io {
namespace {

namespace fs = std::filesystem;
using IfExists = FolderWriter::IfExists;
using Resume = FolderWriter::Resume;

class UnfinishedWork : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(work()); }
  fs::path work() const { return root_ / "out.partial/work"; }
  std::string difference(const std::string& before, const std::string& now) const {
    put(work() / kWorkSettingsName, before);
    return settings_difference(work(), now);
  }
  TemporaryFolder root_;
};

TEST_F(UnfinishedWork, SettingsAndEmptyFoldersAreNoWork) {
  EXPECT_FALSE(has_unfinished_work(root_ / "nowhere"));
  EXPECT_FALSE(has_unfinished_work(work()));
  put(work() / kWorkSettingsName, "{}");
  fs::create_directories(work() / "codes");
  EXPECT_FALSE(has_unfinished_work(work()));
  put(work() / "codes/layer-0", "done");
  EXPECT_TRUE(has_unfinished_work(work()));
}

TEST_F(UnfinishedWork, TheDifferenceNamesTheSettingAndBothValues) {
  EXPECT_EQ(difference(R"({"settings": {"form": "uv", "ratio": 0.2}})",
                       R"({"settings": {"form": "uv", "ratio": 0.3}})"),
            "ratio 0.2 there, 0.3 here");
  EXPECT_EQ(difference(R"({"form": "uv"})", R"({"form": "mixed"})"),
            R"(form "uv" there, "mixed" here)");
  // A value that both have says more than one that an older program did not record.
  EXPECT_EQ(difference(R"({"ratio": 0.2})", R"({"new": 1, "ratio": 0.3})"),
            "ratio 0.2 there, 0.3 here");
  EXPECT_EQ(difference(R"({"ratio": 0.2})", R"({"new": 1, "ratio": 0.2})"),
            "new null there, 1 here");
  const std::string text(200, 'x');
  EXPECT_EQ(difference(R"({"text": "a"})", R"({"text": ")" + text + R"("})"), "another text");
  EXPECT_EQ(difference("{ damaged", "{}"), "its settings cannot be read");
}

TEST_F(UnfinishedWork, AChangedInputIsNoticedAndAMissingOneIsNot) {
  const fs::path model = root_ / "model.safetensors";
  put(model, "weights");
  const nlohmann::ordered_json settings = {{"model", {*file_identity(model)}}, {"ratio", 0.2}};
  put(work() / kWorkSettingsName, settings.dump());
  EXPECT_FALSE(changed_input(work()));
  put(model, "other weights");
  EXPECT_EQ(changed_input(work()), model.string());
  fs::remove(model);
  EXPECT_FALSE(changed_input(work()));
}

// A run with half an identity would leave work that no later run continues.
TEST_F(UnfinishedWork, AFileThatCannotBeExaminedHasNoIdentity) {
  const auto identity = file_identity(root_ / "none.safetensors");
  ASSERT_FALSE(identity.ok());
  EXPECT_NE(identity.error().message.find("none.safetensors: cannot be examined"),
            std::string::npos);
}

// `import`, for example, never looks into the work folder.
TEST_F(UnfinishedWork, ACommandThatCannotResumeDoesNotDeleteTheWorkOfAnother) {
  fs::remove_all(root_ / "out.partial");
  {
    auto writer = FolderWriter::create(root_ / "out", IfExists::kRefuse);
    ASSERT_TRUE(writer.ok()) << writer.error().message;
    put(writer->resume_folder() / "layer-0", "done");
  }
  const auto refused = FolderWriter::create(root_ / "out", IfExists::kRefuse, {}, Resume::kNever);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, Error::Kind::kExists);
  EXPECT_TRUE(fails_with(refused, {"out.partial", "another command", "another output folder"}));
  EXPECT_EQ(get(work() / "layer-0"), "done");
  EXPECT_TRUE(FolderWriter::create(root_ / "out", IfExists::kRefuse).ok());
  EXPECT_EQ(get(work() / "layer-0"), "done");
  EXPECT_TRUE(FolderWriter::create(root_ / "out", IfExists::kReplace, {}, Resume::kNever).ok());
  EXPECT_FALSE(has_unfinished_work(work()));
}

TEST_F(UnfinishedWork, TheWorkFolderOfAnOutputIsKnownBeforeTheOutputIsMade) {
  const auto found = resume_folder_of(root_ / "out/");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, work());
}

}  // namespace
}  // namespace neuronmm::io
