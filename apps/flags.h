#pragma once
// Flags and validators that several commands share, so that a flag has the same name and meaning in
// each of them. A value that a validator refuses is a usage error (exit code 2).

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "help.h"

namespace neuronmm::apps {

// Adds -o,--output. The flag is also understood as `--out`, which the help does not show.
template <typename Path>
CLI::Option* add_output_option(CLI::App* command, Path& path, const std::string& help) {
  return command->add_option("-o,--output,--out", path, help)->type_name("DIR")->group(kOutput);
}

// Adds --force for a command whose output is a folder.
inline CLI::Option* add_force_option(CLI::App* command, bool& force) {
  return command->add_flag("--force", force, "Replace the output folder if it exists")
      ->group(kOutput);
}

// Adds --adapter for a command that runs the model MODEL_DIR. Program::run() hands the folder to
// the readers of models (io/adapter.h) before the command runs.
CLI::Option* add_adapter_option(CLI::App* command);
// Chooses the adapter that the parsed command names, for the model that its first argument names.
// Throws CLI::ValidationError if another option names the same model, which would be merged, too.
void use_named_adapter(const CLI::App& command);

// Adds --threads.
inline CLI::Option* add_threads_option(CLI::App* command, int& threads) {
  return command->add_option("--threads", threads, "Use N threads; 0 takes cores and CPU quota")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str()
      ->group(kSpeed);
}

// Adds --calibration, for the commands that calibrate on texts.
inline CLI::Option* add_calibration_option(CLI::App* command, std::vector<std::string>& texts) {
  return command
      ->add_option("--calibration", texts, "Calibrate on this text; repeatable, - reads stdin")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->group(kInput);
}

// Adds --calibration-tokens. `default_text` says how many tokens are used without the flag.
inline CLI::Option* add_calibration_tokens_option(CLI::App* command, std::optional<int64_t>& tokens,
                                                  const std::string& default_text) {
  return command->add_option("--calibration-tokens", tokens, "Use N tokens of all texts")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->default_str(default_text)
      ->group(kInput);
}

// Adds --statistics, for the commands that calibrate.
template <typename Path>
CLI::Option* add_statistics_option(CLI::App* command, Path& folder) {
  return command
      ->add_option("--statistics", folder, "Keep the statistics of the text in DIR, and use them")
      ->type_name("DIR")
      ->group(kAdvanced);
}

// Returns a validator for unsigned values. It is needed because CLI11 reads -1 as the largest
// unsigned number.
inline CLI::Validator whole_number() {
  const auto check = [](const std::string& text) {
    uint64_t value = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    if (error == std::errc() && end == last) return std::string();
    return "expected a whole number from 0, found \"" + text + "\"";
  };
  return {check, "WHOLE"};
}

// Refuses a list of texts that names standard input ("-") twice, since it can be read only once.
inline void require_one_stdin(const char* flag, const std::vector<std::string>& texts) {
  if (std::ranges::count(texts, "-") < 2) return;
  throw CLI::ValidationError(flag, "- is standard input, which can be read once, found it twice");
}

// Returns a validator for real numbers from `lowest` to `highest`, both included. Unlike CLI::Range
// it refuses NaN.
inline CLI::Validator real_range(double lowest, double highest) {
  const auto check = [lowest, highest](const std::string& text) {
    double value = 0.0;
    if (CLI::detail::lexical_cast(text, value) && value >= lowest && value <= highest) {
      return std::string();
    }
    return fmt::format("expected a number from {} to {}, found \"{}\"", lowest, highest, text);
  };
  return {check, fmt::format("[{} - {}]", lowest, highest)};
}

}  // namespace neuronmm::apps
