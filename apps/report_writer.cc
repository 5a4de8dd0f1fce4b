#include "report_writer.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "help.h"

namespace neuronmm::apps {

void add_json_option(CLI::App* command, std::string& json, const std::string& what) {
  command->add_option("--json", json, "Also write " + what + " as JSON; - is stdout")
      ->type_name("FILE")
      ->group(kOutput);
}

Result<ReportWriter> ReportWriter::open(const std::string& json) {
  ReportWriter writer;
  writer.json_on_stdout_ = json == "-";
  NMM_ASSIGN(writer.json_, OutputFile::open(json));
  return writer;
}

Status ReportWriter::write_json_text(std::string_view json) { return json_.write(json); }

Status ReportWriter::write_json(const nlohmann::ordered_json& json) {
  // File names need not be UTF-8. Bytes that JSON cannot hold are replaced instead of refused.
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  return write_json_text(json.dump(2, ' ', false, kReplace) + "\n");
}

}  // namespace neuronmm::apps
