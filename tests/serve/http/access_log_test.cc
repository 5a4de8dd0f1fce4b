// Tests the access log on full disks and through log rotation.

#include "serve/http/access_log.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/notices.h"

namespace neuronmm::serve {
namespace {

namespace fs = std::filesystem;

bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 5000 && !condition(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

class AccessLogTest : public testing::Test {
 protected:
  AccessLogTest() {
    std::signal(SIGXFSZ, SIG_IGN);  // as the program does
    std::signal(SIGPIPE, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &unlimited_);
    fs::create_directories(folder_);
    set_notice_handler([this](const std::string& notice) {
      const std::lock_guard lock(mutex_);
      notices_.push_back(notice);
    });
  }
  ~AccessLogTest() override {
    limit_file_size(unlimited_.rlim_cur);
    set_notice_handler({});
    fs::remove_all(folder_);
  }

  std::unique_ptr<AccessLog> open(const std::string& path) {
    auto log = AccessLog::open(path);
    EXPECT_TRUE(log.ok());
    return std::move(log).value();
  }
  static void write(AccessLog& log, const std::string& id) {
    AccessRecord record;
    record.request_id = id;
    log.write(record);
  }
  // Returns the request ids of a log, "dropped N" for lines that tell a loss, and "?" for others.
  static std::vector<std::string> lines_of(const fs::path& path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (json.is_discarded()) {
        lines.emplace_back("?");
      } else if (json.contains("dropped")) {
        lines.push_back("dropped " + json["dropped"].dump());
      } else {
        lines.push_back(json["request_id"]);
      }
    }
    return lines;
  }
  void limit_file_size(rlim_t bytes) const {
    const rlimit limit = {.rlim_cur = bytes, .rlim_max = unlimited_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  size_t notices() {
    const std::lock_guard lock(mutex_);
    return notices_.size();
  }

  rlimit unlimited_ = {};
  const fs::path folder_ =
      fs::path(testing::TempDir()) / ("neuronmm-access-log-" + std::to_string(getpid()));
  std::mutex mutex_;
  std::vector<std::string> notices_;
};

TEST_F(AccessLogTest, AFullDiskIsReportedOnceAndItsLinesAreCounted) {
  const auto log = open("/dev/full");
  for (int i = 1; i <= 5; ++i) {
    write(*log, "a");
    EXPECT_TRUE(eventually([&] { return log->lost() == i; })) << i;
  }
  ASSERT_EQ(notices(), 1u);
  for (const char* part : {"/dev/full", "No space left on device", kLostRecordsMetric})
    EXPECT_THAT(notices_[0], testing::HasSubstr(part));
}

// A file size limit cuts the file within a line, as a disk does that is full.
TEST_F(AccessLogTest, LinesAfterALossAreWholeAndTellHowManyWereLost) {
  const fs::path path = folder_ / "log";
  {
    const auto log = open(path);
    write(*log, "first");
    ASSERT_TRUE(eventually([&] { return lines_of(path).size() == 1; }));
    limit_file_size(fs::file_size(path) + 20);
    write(*log, "lost 1");
    ASSERT_TRUE(eventually([&] { return log->lost() == 1; }));
    write(*log, "lost 2");
    ASSERT_TRUE(eventually([&] { return log->lost() == 2; }));
    limit_file_size(unlimited_.rlim_cur);
    write(*log, "second");
    write(*log, "third");
    ASSERT_TRUE(eventually([&] { return lines_of(path).size() == 5; }));
    EXPECT_EQ(log->lost(), 2);
  }
  EXPECT_THAT(lines_of(path), testing::ElementsAre("first", "?", "dropped 2", "second", "third"));
  EXPECT_EQ(notices(), 1u);
}

TEST_F(AccessLogTest, ASlowReaderLosesLinesThatAreCounted) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const auto log = open(pipe);
  const std::string id(10'000, 'x');
  for (int i = 0; i < 300; ++i) write(*log, id);  // 3 MB, of which at most 2.1 MB can wait
  EXPECT_GT(log->lost(), 50);
  EXPECT_LT(log->lost(), 250);
  EXPECT_EQ(notices(), 0u);
  close(reader);
}

TEST_F(AccessLogTest, AReopenedLogGoesOnInANewFile) {
  const fs::path path = folder_ / "log", old = folder_ / "log.1";
  const auto log = open(path);
  write(*log, "a");
  write(*log, "b");
  fs::rename(path, old);
  log->reopen();
  ASSERT_TRUE(eventually([&] { return fs::exists(path); }));
  write(*log, "c");
  ASSERT_TRUE(eventually([&] { return lines_of(path).size() == 1; }));
  EXPECT_THAT(lines_of(old), testing::ElementsAre("a", "b"));
  EXPECT_THAT(lines_of(path), testing::ElementsAre("c"));
  EXPECT_EQ(log->lost(), 0);
}

TEST_F(AccessLogTest, ALogThatCannotBeReopenedGoesOnInTheOldFile) {
  const fs::path path = folder_ / "log";
  const auto log = open(path);
  fs::remove(path);
  fs::create_directories(path);
  log->reopen();
  ASSERT_TRUE(eventually([&] { return notices() == 1; }));
  EXPECT_THAT(notices_[0], testing::HasSubstr("cannot be opened again"));
  write(*log, "a");
  log->reopen();
  EXPECT_EQ(log->lost(), 0);
}

TEST_F(AccessLogTest, NoLogCannotLoseLines) {
  const auto log = open("");
  write(*log, "a");
  log->reopen();
  EXPECT_EQ(log->lost(), 0);
}

}  // namespace
}  // namespace neuronmm::serve
