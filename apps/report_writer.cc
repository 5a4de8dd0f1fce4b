#include "report_writer.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "help.h"
#include "provenance.h"
#include "report_version.h"

namespace neuronmm::apps {

void add_json_option(CLI::App* command, std::string& json, const std::string& what) {
  command->add_option("--json", json, "Also write " + what + " as JSON; - is stdout")
      ->type_name("FILE")
      ->group(kOutput);
}

nlohmann::ordered_json number_or_null(int64_t number) {
  return number == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(number);
}

nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

Result<ReportWriter> ReportWriter::open(const std::string& json) {
  ReportWriter writer;
  writer.json_on_stdout_ = json == "-";
  NMM_ASSIGN(writer.json_, OutputFile::open(json));
  return writer;
}

Status ReportWriter::write_json_text(std::string_view json) {
  if (!json_.wanted()) return {};
  auto parsed = nlohmann::ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
  NMM_CHECK(!parsed.is_discarded());
  return write_json(std::move(parsed));
}

Status ReportWriter::write_json(nlohmann::ordered_json json) {
  if (!json_.wanted()) return {};  // models are not read for nothing
  if (json.is_array()) json = {{"rows", std::move(json)}};
  json[kReportVersionKey] = kReportVersion;
  NMM_ASSIGN(json["provenance"], provenance_json());
  // File names need not be UTF-8. Bytes that JSON cannot hold are replaced instead of refused.
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  return json_.write(json.dump(2, ' ', false, kReplace) + "\n");
}

}  // namespace neuronmm::apps
