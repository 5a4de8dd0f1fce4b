#include "training/metric_program.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/task_labels.h"
#include "child_program.h"
#include "io/text_file.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

// The temporary file with the tokens for the other program; the destructor removes it.
class TokenFile {
 public:
  explicit TokenFile(const fs::path& out) : path_(out.string() + ".tokens") {}
  ~TokenFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  Status write(const std::vector<std::vector<text::TokenId>>& sequences) const {
    return io::write_text_file(path_, nlohmann::json(sequences).dump());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Returns the environment of the other program: its threads sleep between loops, unless the
// environment of this process says otherwise. kKeepFreedMemory is not set, although training sets
// it. Measured: the metric of SmolLM2 is no faster with it, and a model of 1.2 billion parameters
// needs nearly twice the memory (8.1 GB).
std::vector<std::pair<std::string, std::string>> trainer_environment() {
  if (std::getenv(kWaitPolicyVariable) != nullptr) return {};
  return {{kWaitPolicyVariable, kPassiveWait}};
}

Status check_exit(const fs::path& program, int status, std::string message) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  if (interrupted() || (WIFEXITED(status) && WEXITSTATUS(status) == kInterruptedExit)) {
    return interrupted_error("the output metric is not kept");
  }
  if (WIFSIGNALED(status)) {
    return fail(
        "{} metric: ended by signal {} ({}){}", program.string(), WTERMSIG(status),
        strsignal(WTERMSIG(status)),
        WTERMSIG(status) == SIGKILL ? "; if memory is short, shorter sequences may fit" : "");
  }
  while (message.ends_with('\n')) message.pop_back();
  if (!message.empty()) return Error{std::move(message)};
  return fail("{} metric: failed with exit code {}", program.string(), WEXITSTATUS(status));
}

}  // namespace

bool metric_program_available() {
  const auto path = trainer_path();
  return path.ok() && access(path->c_str(), X_OK) == 0;
}

Status run_metric_program(const MetricCall& call) {
  NMM_ASSIGN(const fs::path program, trainer_path());
  return run_metric_program(call, program);
}

Status run_metric_program(const MetricCall& call, const fs::path& program) {
  NMM_TRY(check_trainer_memory());
  const TokenFile tokens(call.out);
  NMM_TRY(tokens.write(call.sequences));
  std::vector<std::string> arguments = {
      "metric",    call.model.string(),          tokens.path(), call.out.string(),
      "--threads", std::to_string(call.threads), "--seed",      std::to_string(call.seed)};
  if (call.share_of_time < 1.0) {
    arguments.insert(arguments.end(), {"--share-of-time", fmt::format("{}", call.share_of_time)});
  }
  if (call.silent) arguments.emplace_back("--silent");
  NMM_ASSIGN(ChildResult result,
             run_child({program.string(), std::move(arguments), trainer_environment()}));
  if (result.missing) return missing_trainer_error(program);
  return check_exit(program, result.status, std::move(result.output));
}

compress::MakeMetric metric_maker(const fs::path& model, int threads, Progress& progress) {
  return [model, threads, &progress](const std::vector<std::vector<text::TokenId>>& sequences,
                                     const fs::path& file) {
    progress.start_elsewhere(task::kMetric);
    const Status made = run_metric_program({.model = model,
                                            .sequences = sequences,
                                            .out = file,
                                            .threads = threads,
                                            .share_of_time = progress.share_of_rest()});
    progress.finish();
    return made;
  };
}

}  // namespace neuronmm::apps
