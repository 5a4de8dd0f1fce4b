#include "kernel/nki_tracer.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "child_program.h"
#include "installed_files.h"
#include "kernel/python_with_numpy.h"
#include "search_path.h"
#include "trainium/simulator/device_spec.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPythonPath = "PYTHONPATH";

constexpr InstalledFolder kPackages = {.name = "python",
                                       .link = "python_packages",
                                       .source = "python",
                                       .file = "nki/run.py",
                                       .purpose = "the Python files that run kernels"};

// Returns what the user's variable PYTHONPATH lists.
SearchPath user_folders() {
  const char* const list = std::getenv(kPythonPath);
  return split_search_path(list == nullptr ? "" : list);
}

// The option -P keeps the current folder out of Python's module path. The user's relative folders
// come after it, for the kernel's own imports.
std::vector<std::string> command_line(const TracerCall& call, const fs::path& package,
                                      const fs::path& trace, const fs::path& report) {
  const std::string device =
      call.device.empty() ? std::string(simulator::kDefaultDevice) : call.device;
  std::vector<std::string> words = {"-P",
                                    (package / "nki/start.py").string(),
                                    call.kernel,
                                    "--device",
                                    device,
                                    "--json",
                                    report.string(),
                                    "--quiet"};
  if (!trace.empty()) words.insert(words.end(), {"--trace", trace.string()});
  if (!call.sdk.empty()) words.insert(words.end(), {"--sdk", call.sdk});
  words.insert(words.end(), {"--seed", std::to_string(call.seed)});
  for (const std::string& text : call.arguments) words.insert(words.end(), {"--arg", text});
  for (const std::string& text : call.keyword_arguments) {
    words.insert(words.end(), {"--kwarg", text});
  }
  for (const std::string& text : call.settings) words.insert(words.end(), {"--set", text});
  for (const std::string& folder : user_folders().relative) {
    words.insert(words.end(), {"--modules", folder});
  }
  if (call.values) words.emplace_back("--values");
  if (!call.reference.empty()) words.insert(words.end(), {"--ref", call.reference});
  if (!call.outputs.empty()) words.insert(words.end(), {"--save-outputs", call.outputs});
  if (call.tolerance)
    words.insert(words.end(), {"--tolerance", fmt::format("{}", *call.tolerance)});
  if (call.most_instructions) {
    words.insert(words.end(), {"--max-instructions", std::to_string(*call.most_instructions)});
  }
  if (call.most_seconds) {
    words.insert(words.end(), {"--max-seconds", fmt::format("{}", *call.most_seconds)});
  }
  if (call.most_bytes) {
    words.insert(words.end(), {"--max-memory", std::to_string(*call.most_bytes)});
  }
  return words;
}

// Returns the module path: our package first, then the user's absolute folders.
std::string python_path(const fs::path& package) {
  std::vector<std::string> folders = user_folders().absolute;
  folders.insert(folders.begin(), package.string());
  return fmt::format("{}", fmt::join(folders, ":"));
}

// Reads a number. JSON cannot express infinities and NaN, so the runner writes words instead.
std::optional<double> number_in(const nlohmann::json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end()) return std::nullopt;
  if (at->is_number()) return at->get<double>();
  if (*at == "nan") return std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  return *at == "-infinity" ? -infinity : infinity;
}

std::optional<WrongElements> wrong_elements_in(const nlohmann::json& output) {
  const auto at = output.find("wrong");
  if (at == output.end() || !at->is_object()) return std::nullopt;
  return WrongElements{at->value("index", std::vector<int64_t>()), *number_in(*at, "found"),
                       *number_in(*at, "expected"), *number_in(*at, "share"),
                       *number_in(*at, "ulps")};
}

Status read_report(const fs::path& path, TracerReport& report) {
  std::ifstream stream(path);
  const nlohmann::json json = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return fail("{}: the report of the run cannot be read", path.string());
  for (const nlohmann::json& output : json.value("outputs", nlohmann::json::array())) {
    report.results.push_back(
        {output.value("dtype", ""), output.value("shape", std::vector<int64_t>()),
         number_in(output, "error"), number_in(output, "tolerance"), wrong_elements_in(output)});
  }
  return {};
}

// Returns the runner's message without the runner's own name.
std::string message_of(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  constexpr std::string_view kPrefix = "error: ";
  if (const size_t at = text.find(kPrefix);
      at != std::string::npos && (at == 0 || text[at - 1] == '\n' || text[at - 1] == ' ')) {
    text.erase(0, at + kPrefix.size());
  }
  return text;
}

constexpr int kWrongKernel = 122;  // Equal to that of python/nki/start.py.

int exit_code_of(int status) {
  return WEXITSTATUS(status) == kWrongKernel ? 1 : WEXITSTATUS(status);
}

// Returns whether the kernel may have caused the signal, as a crash of a library does.
bool is_crash(int signal) {
  return signal != SIGKILL && signal != SIGTERM && signal != SIGINT && signal != SIGHUP;
}

std::string signal_text(int status) {
  return fmt::format("Python was ended by signal {} ({})", WTERMSIG(status),
                     strsignal(WTERMSIG(status)));
}

}  // namespace

Result<TracerReport> run_tracer(const TracerCall& call, const fs::path& trace) {
  NMM_ASSIGN(const fs::path package, find_installed(kPackages));
  const fs::path report_file = trace.string() + ".json";
  NMM_ASSIGN(ChildResult result, run_python(command_line(call, package, trace, report_file),
                                            {{kPythonPath, python_path(package)}}));
  if (interrupted()) return interrupted_error("the kernel was not run to its end");
  TracerReport report;
  if (WIFSIGNALED(result.status)) {
    report.exit_code = 1;
    report.kernel_failed = is_crash(WTERMSIG(result.status));
    report.message = fmt::format("{}: {}", call.kernel, signal_text(result.status));
    return report;
  }
  report.exit_code = exit_code_of(result.status);
  report.kernel_failed = WEXITSTATUS(result.status) == kWrongKernel;
  report.message = message_of(std::move(result.output));
  // An error before the kernel's end leaves no report, and neither does a kernel that ends Python
  // itself. A wrong result leaves a report and exit code 1.
  report.finished = fs::exists(report_file);
  if (report.finished) NMM_TRY(read_report(report_file, report));
  return report;
}

Result<FolderReport> run_test_folder(const TracerCall& call, const fs::path& report_file) {
  NMM_ASSIGN(const fs::path package, find_installed(kPackages));
  NMM_ASSIGN(ChildResult result, run_python(command_line(call, package, {}, report_file),
                                            {{kPythonPath, python_path(package)}}));
  if (interrupted()) return interrupted_error("the tests were not run to their end");
  if (WIFSIGNALED(result.status)) return fail("{}: {}", call.kernel, signal_text(result.status));
  FolderReport report;
  report.exit_code = exit_code_of(result.status);
  report.message = message_of(std::move(result.output));
  if (!fs::exists(report_file)) return report;
  std::ifstream stream(report_file);
  const nlohmann::json json = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return fail("{}: the report of the run cannot be read", report_file.string());
  }
  for (const nlohmann::json& test : json.value("tests", nlohmann::json::array())) {
    report.tests.push_back({test.value("file", ""), test.value("test", ""),
                            test.value("outcome", ""), test.value("message", ""),
                            test.value("seconds", 0.0)});
  }
  return report;
}

}  // namespace neuronmm::apps
