#include "kernel/nki_tracer.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "child_program.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPython = "python3";
constexpr const char* kPythonPath = "PYTHONPATH";

// Beside the program in a build folder, else where an installation has it.
Result<fs::path> package_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail("/proc/self/exe: cannot be read: {}", error.message());
  const fs::path built = self.parent_path() / "python";
  const fs::path installed = self.parent_path().parent_path() / "share/neuronmm/python";
  for (const fs::path& folder : {built, installed}) {
    if (fs::exists(folder / "nki/run.py", error)) return folder;
  }
  return fail("the Python package nki, which runs kernels, is neither in {} nor in {}",
              built.string(), installed.string());
}

std::vector<std::string> command_line(const TracerCall& call, const fs::path& trace,
                                      const fs::path& report) {
  std::vector<std::string> words = {"-m",
                                    "nki.run",
                                    call.kernel,
                                    "--device",
                                    call.device,
                                    "--trace",
                                    trace.string(),
                                    "--json",
                                    report.string(),
                                    "--seed",
                                    std::to_string(call.seed)};
  for (const std::string& text : call.arguments) words.insert(words.end(), {"--arg", text});
  for (const std::string& text : call.keyword_arguments) {
    words.insert(words.end(), {"--kwarg", text});
  }
  if (call.values) words.emplace_back("--values");
  if (!call.reference.empty()) words.insert(words.end(), {"--ref", call.reference});
  if (call.tolerance)
    words.insert(words.end(), {"--tolerance", fmt::format("{}", *call.tolerance)});
  if (call.most_instructions) {
    words.insert(words.end(), {"--max-instructions", std::to_string(*call.most_instructions)});
  }
  if (call.most_seconds) {
    words.insert(words.end(), {"--max-seconds", fmt::format("{}", *call.most_seconds)});
  }
  return words;
}

// The user's own modules stay to be found, behind ours.
std::string python_path(const fs::path& package) {
  const char* const before = std::getenv(kPythonPath);
  return before == nullptr || *before == '\0' ? package.string()
                                              : fmt::format("{}:{}", package.string(), before);
}

std::optional<double> number_in(const nlohmann::json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end() || !at->is_number()) return std::nullopt;
  return at->get<double>();
}

void read_report(const fs::path& path, TracerReport& report) {
  std::ifstream stream(path);
  const nlohmann::json json = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  for (const nlohmann::json& output : json.value("outputs", nlohmann::json::array())) {
    report.results.push_back({output.value("dtype", ""),
                              output.value("shape", std::vector<int64_t>()),
                              number_in(output, "error"), number_in(output, "tolerance")});
  }
  report.notes = json.value("notes", std::vector<std::string>());
}

Error python_is_missing() {
  return fail(
      "python3 is missing, which runs the kernel's file: apt-get install python3 python3-numpy");
}

// The runner's message without what it calls itself.
std::string message_of(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  constexpr std::string_view kPrefix = "error: ";
  if (const size_t at = text.find(kPrefix);
      at != std::string::npos && (at == 0 || text[at - 1] == '\n' || text[at - 1] == ' ')) {
    text.erase(0, at + kPrefix.size());
  }
  return text;
}

}  // namespace

Result<TracerReport> run_tracer(const TracerCall& call, const fs::path& trace) {
  NMM_ASSIGN(const fs::path package, package_folder());
  const fs::path report_file = trace.string() + ".json";
  NMM_ASSIGN(ChildEnd end, run_child({.program = kPython,
                                      .arguments = command_line(call, trace, report_file),
                                      .environment = {{kPythonPath, python_path(package)},
                                                      {"PYTHONDONTWRITEBYTECODE", "1"}},
                                      .stream = STDERR_FILENO}));
  if (interrupted()) return interrupted_error("the kernel was not run to its end");
  if (end.missing) return python_is_missing();
  if (end.output.find("No module named 'numpy'") != std::string::npos) {
    return fail("NumPy is missing, which python/nki needs: apt-get install python3-numpy");
  }
  TracerReport report;
  if (WIFSIGNALED(end.status)) {
    return fail("{}: Python was ended by signal {} ({})", call.kernel, WTERMSIG(end.status),
                strsignal(WTERMSIG(end.status)));
  }
  report.exit_code = WEXITSTATUS(end.status);
  report.message = message_of(std::move(end.output));
  read_report(report_file, report);
  return report;
}

}  // namespace neuronmm::apps
