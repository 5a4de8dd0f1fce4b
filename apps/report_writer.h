#pragma once
// The report of a command: text for people and, with --json, the same facts as JSON. Nearly every
// command writes its results with it. A JSON file that cannot be written is an error before any
// work is done.

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include <fmt/core.h>
#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "output_file.h"

namespace CLI {
class App;
}

namespace neuronmm::apps {

constexpr double kMiB = 1024.0 * 1024.0;  // bytes per MiB, the unit of memory in the tables

// Adds --json FILE; the file "-" is standard output. `what` completes the help text "Also write ...
// as JSON".
void add_json_option(CLI::App* command, std::string& json, const std::string& what = "the report");

// Returns what a report says of a size or a number that 0 stands for inside the program: the
// number, or null if nothing was removed or no limit was set.
nlohmann::ordered_json number_or_null(int64_t number);
// Returns the text, or null if it is empty because the flag was not given.
nlohmann::ordered_json text_or_null(const std::string& text);

// Writes the report of one command.
class ReportWriter {
 public:
  // Opens the JSON file. Call it before the work, so that an error costs no time. `json` is the
  // value of the flag, which is empty if the flag was not given.
  static Result<ReportWriter> open(const std::string& json);

  // Prints text for people on standard output, or on standard error if the JSON goes to standard
  // output.
  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) const {
    fmt::print(text(), format, std::forward<Args>(args)...);
  }
  std::FILE* text() const { return json_on_stdout_ ? stderr : stdout; }
  bool wants_json() const { return json_.wanted(); }
  // Write the JSON file, with what made it under the key "provenance" (provenance.h). A list
  // becomes the key "rows" of an object. Both functions do nothing if --json was not given. The
  // text must be JSON.
  Status write_json_text(std::string_view json);
  Status write_json(nlohmann::ordered_json json);

 private:
  OutputFile json_;
  bool json_on_stdout_ = false;
};

}  // namespace neuronmm::apps
