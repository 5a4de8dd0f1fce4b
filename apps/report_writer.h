#pragma once
// What a command reports: text for people and, with --json, the same as JSON.

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

constexpr double kMiB = 1024.0 * 1024.0;  // bytes, as the tables print them

// --json FILE; "-" is standard output. `what` completes "also write ... to this file".
void add_json_option(CLI::App* command, std::string& json, const std::string& what = "the report");

class ReportWriter {
 public:
  // Before the work, so that a file that cannot be written costs nothing. `json` is the flag's
  // value; empty without the flag.
  static Result<ReportWriter> open(const std::string& json);

  // Text for people: on standard output, or on standard error when the JSON goes to the former.
  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) const {
    fmt::print(text(), format, std::forward<Args>(args)...);
  }
  std::FILE* text() const { return json_on_stdout_ ? stderr : stdout; }
  bool wants_json() const { return json_.wanted(); }
  // Both do nothing without the flag.
  Status write_json_text(std::string_view json);
  Status write_json(const nlohmann::ordered_json& json);

 private:
  OutputFile json_;
  bool json_on_stdout_ = false;
};

}  // namespace neuronmm::apps
