#pragma once
// The help texts of the programs: what `neuronmm`, `neuronmm COMMAND --help` and `--help-all`
// print. Each command says its sentence and its examples where it is registered (Program::add) and
// puts each of its options into one of the groups below. The man page uses the same texts.

#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace neuronmm::apps {

// The groups of options, in the order of the help.
inline constexpr const char* kInput = "Input";
inline constexpr const char* kOutput = "Output";
inline constexpr const char* kQuality = "Quality";
inline constexpr const char* kSpeed = "Speed";
inline constexpr const char* kAdvanced = "Advanced";
// Options that few need. --help-all shows them at the end of "Advanced", and --help counts them.
inline constexpr const char* kRare = "Rare";

// The help text of MODEL_DIR.
inline constexpr const char* kModelHelp = "Folder, GGUF file or Hugging Face name of a model";

// The columns that a help text may fill.
inline constexpr size_t kHelpColumns = 80;

// Returns the names of an option and the name of its value, for example "-o,--output DIR". Names
// that are only understood for the sake of old scripts (--out) are left out.
std::string option_names(const CLI::Option& option);
// Returns the sentence about an option with its default, for example "Use N threads (default 4)."
std::string option_text(const CLI::Option& option);

// Prints the help of the program and of its commands.
class HelpFormatter : public CLI::FormatterBase {
 public:
  // Sets the command lines that the help of `command` shows as examples.
  void set_examples(const CLI::App* command, std::vector<std::string> examples) {
    examples_[command] = std::move(examples);
  }
  // Sets the arguments in the usage line of `command`. Without them the line has the arguments that
  // CLI11 requires; a command whose own checks require more, or one of several, sets them.
  void set_usage(const CLI::App* command, std::string arguments) {
    usages_[command] = std::move(arguments);
  }
  // CLI11 calls this function. `name` is the program and the command, for example "neuronmm fit".
  // `mode` is kAll for --help-all.
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;

 private:
  std::string examples_of(const CLI::App* app) const;
  std::string usage_of(const CLI::App& app, const std::string& name) const;

  std::map<const CLI::App*, std::vector<std::string>> examples_;
  std::map<const CLI::App*, std::string> usages_;
};

}  // namespace neuronmm::apps
