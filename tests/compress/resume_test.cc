// This file tests that interrupted compressions continue where they stopped and give the bytes of
// an uninterrupted one.

#include <cstdio>
#include <regex>

#include "compress/compress_test.h"
#include "compress/factors/layer_tasks.h"
#include "io/model_folder.h"

namespace neuronmm::compress {
namespace {

class Resume : public CompressTest {};

// Returns what was written to the file, and closes it.
std::string printed(std::FILE* file) {
  std::rewind(file);
  std::string text(1 << 16, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST_F(Resume, InterruptedCalibrationResumesToTheSameBytes) {
  int64_t calls = 0;
  backend_.on_attention = [&] { ++calls; };
  run_well(request("whole"));
  const int64_t all_calls = calls;
  EXPECT_EQ(all_calls, kLayers * kSequences);

  for (const int64_t stop : {int64_t{1}, kSequences, kSequences + 5, all_calls}) {
    SCOPED_TRACE(fmt::format("after {} of {} sequences", stop, all_calls));
    calls = 0;
    backend_.on_attention = [&] { set_interrupted(++calls == stop); };
    const auto stopped = run(request("parts"));
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
    EXPECT_NE(stopped.error().message.find("parts.partial; run the same command again"),
              std::string::npos)
        << stopped.error().message;
    EXPECT_FALSE(fs::exists(path("parts")));
    set_interrupted(false);
    calls = 0;
    backend_.on_attention = [&] { ++calls; };
    run_well(request("parts"));
    EXPECT_EQ(calls, all_calls - stop);
    EXPECT_EQ(bytes("parts"), bytes("whole"));
    fs::remove_all(path("parts"));
  }
}

TEST_F(Resume, InterruptedFactorizationResumesToTheSameBytes) {
  for (const Method method : {Method::kWhitened, Method::kSvd}) {
    run_well(request("whole", method));
    for (int64_t stop = 1; stop <= kMatrices; stop += 2) {
      SCOPED_TRACE(fmt::format("{} after {} of {} matrices", method_name(method), stop, kMatrices));
      int64_t done = 0;
      const auto stopped = run(request("parts", method), [&](const MatrixReport&) {
        if (++done == stop) set_interrupted(true);
      });
      ASSERT_FALSE(stopped.ok());
      EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
      EXPECT_TRUE(fs::exists(path("parts.partial")));
      EXPECT_FALSE(fs::exists(path("parts")));
      set_interrupted(false);
      int64_t attentions = 0;
      backend_.on_attention = [&] { ++attentions; };
      const CompressSummary resumed = run_well(request("parts", method));
      backend_.on_attention = [] {};
      EXPECT_EQ(attentions, 0);
      EXPECT_EQ(resumed.matrices.size(), static_cast<size_t>(kMatrices));
      EXPECT_EQ(bytes("parts"), bytes("whole"));
      EXPECT_FALSE(fs::exists(path("parts.partial")));
      fs::remove_all(path("parts"));
    }
    fs::remove_all(path("whole"));
  }
}

TEST_F(Resume, WorkOfOtherSettingsIsDeletedOnlyIfAskedTo) {
  const auto interrupt = [](const MatrixReport&) { set_interrupted(true); };
  ASSERT_FALSE(run(request("out", Method::kSvd), interrupt).ok());
  set_interrupted(false);
  CompressRequest other = request("out", Method::kSvd);
  other.rule.ratio = 0.5;
  expect_refused(other, {"out.partial", "unfinished work", "ratio 0.25 there, 0.5 here",
                         "another output folder to keep both"});
  // The work is still there: an interrupted run of the first settings goes on with it.
  std::FILE* const messages = std::tmpfile();
  {
    Progress progress(messages);
    const auto resumed =
        compress(request("out", Method::kSvd), backend_, progress,
                 [](const MatrixReport& report) { set_interrupted(report.layer == 2); });
    ASSERT_FALSE(resumed.ok());
    set_interrupted(false);
  }
  const std::string text = printed(messages);
  EXPECT_NE(text.find("goes on with the work of an interrupted run"), std::string::npos) << text;
  EXPECT_TRUE(std::regex_search(text, std::regex("found [1-9] of 9 matrices; goes on with matrix")))
      << text;
  other.force = true;
  const CompressSummary summary = run_well(other);
  for (const MatrixReport& report : summary.matrices) EXPECT_EQ(report.rank, 12);

  ASSERT_FALSE(run(request("changed", Method::kSvd), interrupt).ok());
  set_interrupted(false);
  tensors_.at(mlp_name(0, MlpMatrix::kGate, "_proj")).values[0] += 1.0f;
  write_model(input_, tensors_);
  run_well(request("changed", Method::kSvd));
  run_well(request("expected", Method::kSvd));
  EXPECT_EQ(bytes("changed"), bytes("expected"));
}

// A later run detects damaged work files and writes them again.
TEST_F(Resume, DamagedWorkFilesAreRewritten) {
  run_well(request("whole", Method::kSvd));
  int64_t done = 0;
  ASSERT_FALSE(run(request("parts", Method::kSvd), [&](const MatrixReport&) {
                 set_interrupted(++done == 4);
               }).ok());
  set_interrupted(false);
  int damaged = 0;
  for (const auto& entry : fs::directory_iterator(path("parts.partial") / "work")) {
    if (entry.path().extension() != ".safetensors") continue;
    fs::resize_file(entry.path(), 50);
    ++damaged;
  }
  EXPECT_GE(damaged, 4);
  run_well(request("parts", Method::kSvd));
  EXPECT_EQ(bytes("parts"), bytes("whole"));
}

// A changed bit in any file that an interrupted run has kept never changes the result.
TEST_F(Resume, AChangedBitInTheWorkNeverChangesTheResult) {
  for (const Method method : {Method::kWhitened, Method::kSvd}) {
    run_well(request("whole", method));
    for (size_t victim = 0;; ++victim) {
      int64_t done = 0;
      ASSERT_FALSE(run(request("parts", method), [&](const MatrixReport&) {
                     set_interrupted(++done >= 4);
                   }).ok());
      set_interrupted(false);
      std::vector<fs::path> kept;
      for (const auto& entry : fs::recursive_directory_iterator(path("parts.partial") / "work")) {
        if (entry.is_regular_file()) kept.push_back(entry.path());
      }
      std::sort(kept.begin(), kept.end());
      ASSERT_GE(kept.size(), 5u);
      if (victim < kept.size()) {
        std::fstream file(kept[victim], std::ios::in | std::ios::out | std::ios::binary);
        const auto middle = static_cast<std::streamoff>(fs::file_size(kept[victim]) / 2);
        const char changed = static_cast<char>(file.seekg(middle).get() ^ 1);
        file.seekp(middle).put(changed);
      }
      // Damaged settings are those of another run.
      CompressRequest again = request("parts", method);
      again.force = victim < kept.size() && kept[victim].filename() == "settings.json";
      run_well(again);
      EXPECT_EQ(bytes("parts"), bytes("whole"))
          << method_name(method) << (victim < kept.size() ? kept[victim] : "nothing changed");
      fs::remove_all(path("parts"));
      if (victim >= kept.size()) break;
    }
    fs::remove_all(path("whole"));
  }
}

TEST_F(Resume, AnInputThatChangesMeanwhileIsNoticed) {
  const auto overwritten = run(request("out", Method::kSvd), [&](const MatrixReport& report) {
    if (report.layer != 0 || report.matrix != MlpMatrix::kGate) return;
    fs::last_write_time(input_.path() / "model.safetensors", fs::file_time_type::clock::now());
  });
  ASSERT_FALSE(overwritten.ok());
  EXPECT_NE(overwritten.error().message.find("model.safetensors"), std::string::npos);
  EXPECT_NE(overwritten.error().message.find("was changed"), std::string::npos);
  EXPECT_FALSE(fs::exists(path("out")));
}

// Programs exit with another code after an interrupt than after a failure.
TEST_F(Resume, AnInterruptWithinALayerIsNoFailureOfTheLayer) {
  const auto opened = io::open_model(input_.path());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const CompressionInputs inputs{opened->checkpoint, opened->config, backend_, nullptr, silent_};
  const auto run_tasks = [&](const Error& error) {
    return LayerTasks(inputs).run(
        "Narrowing", [](int64_t) { return false; },
        [&](int64_t layer) { return layer == 1 ? Status(error) : Status(); });
  };
  const Status stopped = run_tasks(interrupted_error("half of a layer is done"));
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, Error::Kind::kInterrupted);
  EXPECT_EQ(stopped.error().message, "interrupted: 1 of 3 layers are done");
  const Status failed = run_tasks(fail("too small"));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, Error::Kind::kFailure);
  EXPECT_EQ(failed.error().message, input_.path().string() + ": layer 1: too small");
}

}  // namespace
}  // namespace neuronmm::compress
