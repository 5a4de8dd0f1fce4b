#include "provenance.h"

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <optional>
#include <system_error>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>

#include "base/parallel.h"
#include "command_text.h"
#include "io/checkpoint.h"
#include "io/checksum.h"
#include "io/mapped_file.h"
#include "io/weights_checksum.h"
#include "version.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Returns the time of the report. SOURCE_DATE_EPOCH replaces the clock, as it does in reproducible
// builds (https://reproducible-builds.org/specs/source-date-epoch), so that equal runs write equal
// reports.
std::time_t report_time() {
  const char* const given = std::getenv("SOURCE_DATE_EPOCH");
  std::time_t seconds = 0;
  if (given != nullptr) {
    const auto [end, error] = std::from_chars(given, given + std::strlen(given), seconds);
    if (error == std::errc() && *end == '\0') return seconds;
  }
  return std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
}

// A model that an argument names.
struct NamedModel {
  std::string argument;
  fs::path path;
};

// The command of this process, of which there is one.
struct RecordedCommand {
  std::string name;
  std::vector<std::string> arguments;
  std::vector<NamedModel> models;
  std::optional<Json> provenance;  // made once, because weights are read for it
};
RecordedCommand& recorded() {
  static RecordedCommand command;
  return command;
}

enum class Kind { kModel, kOther, kUnknown };

// Texts are arguments, too, so a path that cannot exist is no fault.
Kind kind_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) {
    const bool is_text = error == std::errc::filename_too_long;
    return is_text ? Kind::kOther : Kind::kUnknown;
  }
  if (fs::is_regular_file(status)) {
    return path.extension() == ".gguf" ? Kind::kModel : Kind::kOther;
  }
  if (!fs::is_directory(status)) return Kind::kOther;
  const bool has_config = fs::exists(path / "config.json", error);
  return error ? Kind::kUnknown : has_config ? Kind::kModel : Kind::kOther;
}

// Returns whether the option's own name or that of its value says that it names a file or folder.
bool names_a_place(const CLI::Option& option) {
  const std::string value = option.get_type_name();
  const std::string name = option.get_single_name();
  return value == "DIR" || value == "FILE" || value == "PATH" || name == "FILE" ||
         name.ends_with("DIR");
}

// Returns the name of the processor, or the architecture if the system does not tell it.
std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname system = {};
  return uname(&system) == 0 ? system.machine : "unknown";
}

Result<std::string> file_checksum(const fs::path& path) {
  NMM_ASSIGN(const auto file, io::MappedFile::open(path));
  const auto bytes = file->bytes();
  return io::checksum({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// The checksum is null if the folder has no weights, as a --dry-run allows.
Result<Json> checksum_of_weights(const fs::path& folder) {
  const auto checkpoint = io::Checkpoint::open(folder);
  if (checkpoint.ok()) return Json(io::weights_checksum(*checkpoint));
  std::error_code error;
  bool has_weights = false;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    has_weights = has_weights || entry->path().extension() == ".safetensors";
  }
  if (error || has_weights) return checkpoint.error();
  return Json();
}

Result<Json> described_model(const NamedModel& model, bool of_tokenizer) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(model.path, error);
  const bool is_folder = !error && fs::is_directory(model.path, error);
  if (error || kind_of(model.path) == Kind::kUnknown)
    return fail("{}: cannot be examined for the report: {}", model.path.string(), error.message());
  const fs::path name = whole.has_filename() ? whole.filename() : whole.parent_path().filename();
  Json json = {{"argument", model.argument}, {"name", name.string()}};
  if (!is_folder) {
    NMM_ASSIGN(json["file_xxh3"], file_checksum(model.path));
  } else if (of_tokenizer) {
    NMM_ASSIGN(json["tokenizer_xxh3"], file_checksum(model.path / "tokenizer.json"));
  } else {
    NMM_ASSIGN(json["weights_xxh3"], checksum_of_weights(model.path));
  }
  return json;
}

}  // namespace

void record_command(const std::vector<std::string>& arguments, const CLI::App& command) {
  RecordedCommand& record = recorded();
  record = {command.get_name(), arguments, {}, {}};
  for (const CLI::Option* option : command.get_options()) {
    if (option->check_lname("output")) continue;
    for (const std::string& value : option->results()) {
      const Kind kind = kind_of(value);
      if (kind == Kind::kModel || (kind == Kind::kUnknown && names_a_place(*option)))
        record.models.push_back({option->get_single_name(), value});
    }
  }
}

Result<Json> provenance_json() {
  RecordedCommand& record = recorded();
  if (record.provenance) return *record.provenance;
  Json models = Json::array();
  for (const NamedModel& model : record.models) {
    if (kind_of(model.path) == Kind::kOther) continue;  // it could not be examined before
    NMM_ASSIGN(Json described, described_model(model, record.name == "tokenize"));
    models.push_back(std::move(described));
  }
  record.provenance = Json{{"program", fmt::format("neuronmm {}", kVersion)},
                           {"command", command_text(record.arguments)},
                           {"date", fmt::format("{:%FT%TZ}", fmt::gmtime(report_time()))},
                           {"machine",
                            {{"cpu", cpu_name()},
                             {"cores", std::thread::hardware_concurrency()},
                             {"threads", num_threads()}}},
                           {"models", std::move(models)}};
  return *record.provenance;
}

Result<std::vector<std::string>> provenance_lines() {
  NMM_ASSIGN(const Json facts, provenance_json());
  const Json& machine = facts["machine"];
  std::vector<std::string> lines = {
      fmt::format("{}, {}", facts["program"].get<std::string>(), facts["date"].get<std::string>()),
      facts["command"].get<std::string>(),
      fmt::format("{}, {} cores, {} threads", machine["cpu"].get<std::string>(),
                  machine["cores"].get<unsigned>(), machine["threads"].get<int>())};
  for (const Json& model : facts["models"]) {
    std::string line = model["name"].get<std::string>();
    for (const char* key : {"weights_xxh3", "file_xxh3", "tokenizer_xxh3"}) {
      if (model.contains(key) && model[key].is_string()) {
        line += fmt::format(", {} {}", key, model[key].get<std::string>());
      }
    }
    lines.push_back(line);
  }
  return lines;
}

}  // namespace neuronmm::apps
