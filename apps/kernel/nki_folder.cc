#include "kernel/nki_folder.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernel/trace_folder.h"
#include "message.h"
#include "report_writer.h"

namespace neuronmm::apps {
namespace {

int64_t count(const FolderReport& report, std::string_view outcome) {
  return std::ranges::count(report.tests, outcome, &KernelTest::outcome);
}

std::string text_of(const FolderReport& report) {
  std::string text;
  for (const KernelTest& test : report.tests) {
    text += fmt::format("{:<8}{:>8.2f} s   {}{}{}{}{}\n", test.outcome, test.seconds, test.file,
                        test.name.empty() ? "" : "::", test.name, test.message.empty() ? "" : ": ",
                        test.message);
  }
  return text + fmt::format("\n{} passed, {} failed, {} skipped\n", count(report, "passed"),
                            count(report, "failed"), count(report, "skipped"));
}

nlohmann::ordered_json json_of(const FolderReport& report) {
  nlohmann::ordered_json tests = nlohmann::ordered_json::array();
  for (const KernelTest& test : report.tests) {
    tests.push_back({{"file", test.file},
                     {"test", test.name},
                     {"outcome", test.outcome},
                     {"message", test.message},
                     {"seconds", test.seconds}});
  }
  return {{"passed", count(report, "passed")},
          {"failed", count(report, "failed")},
          {"skipped", count(report, "skipped")},
          {"tests", tests}};
}

}  // namespace

Result<int> run_nki_folder(const TracerCall& call, const std::string& json) {
  NMM_ASSIGN(ReportWriter writer, ReportWriter::open(json));
  NMM_ASSIGN(TraceFolder folder, TraceFolder::create());
  NMM_ASSIGN(const FolderReport report, run_test_folder(call, folder.path() / "tests.json"));
  if (report.tests.empty()) {
    print_message("neuronmm nki: {}\n",
                  report.message.empty() ? "no test was run" : report.message);
    return report.exit_code == 2 ? 2 : 1;
  }
  if (writer.wants_json()) NMM_TRY(writer.write_json(json_of(report)));
  writer.print("{}", text_of(report));
  NMM_TRY(folder.remove());
  return count(report, "failed") > 0 ? 1 : 0;
}

}  // namespace neuronmm::apps
