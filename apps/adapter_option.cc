// The option --adapter, which all commands share that run one model.

#include <filesystem>

#include "flags.h"
#include "io/adapter.h"
#include "io/model_name.h"

namespace neuronmm::apps {
namespace {

constexpr const char* kAdapter = "--adapter";

// Returns the path of the model that the command runs.
std::string model_of(const CLI::App& command) {
  for (const CLI::Option* const option : command.get_options()) {
    const std::string name = option->get_single_name();
    if (option->count() > 0 && (name == "MODEL_DIR" || name == "FILE"))
      return option->results().front();
  }
  return {};
}

}  // namespace

CLI::Option* add_adapter_option(CLI::App* command) {
  CLI::Option* const option = command->add_option(
      kAdapter, [](const CLI::results_t&) { return true; },
      "Merge this LoRA adapter (PEFT's format) into the model");
  // An adapter in the cache of Hugging Face may be named as there. A path that exists stays.
  option->transform(CLI::Validator(
      [](std::string& name) {
        std::error_code error;
        if (!std::filesystem::exists(name, error)) name = io::find_model(name).string();
        return std::string();
      },
      "", "adapter"));
  return option->type_name("DIR")->group(kInput);
}

void use_named_adapter(const CLI::App& command) {
  const CLI::Option* const adapter = command.get_option_no_throw(kAdapter);
  if (adapter == nullptr || adapter->count() == 0) return;
  const std::string model = model_of(command);
  for (const char* const name : {"--reference", "--against", "--draft"}) {
    const CLI::Option* const other = command.get_option_no_throw(name);
    std::error_code error;
    if (other == nullptr || other->count() == 0) continue;
    if (!std::filesystem::equivalent(other->results().front(), model, error) || error) continue;
    throw CLI::ValidationError(
        name,
        "names the model that --adapter changes, so that both would be the same; write the merged "
        "model with `neuronmm import MODEL --adapter DIR -o NEW` and name NEW");
  }
  io::use_adapter(model, adapter->results().front());
}

}  // namespace neuronmm::apps
