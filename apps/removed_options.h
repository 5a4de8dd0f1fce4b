#pragma once
// The table of options that earlier versions had, with what to use instead. Program::explain()
// consults it when it reports wrong usage, and the Python package consults it for keywords.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::apps {

struct RemovedOption {
  std::string_view command;  // "compress"
  std::string_view option;   // "--align"
  // The removed value, such as "error-aware" of --method. Empty if the whole option was removed.
  std::string_view value;
  std::string_view instead;  // what to use, as the end of a sentence that begins with "use"
};
std::span<const RemovedOption> removed_options();

// Returns the message about the first removed option among the `arguments` of a command, or nothing
// if there is none. A value may follow as "--method error-aware" or "--method=error-aware".
std::optional<std::string> removed_option_message(std::string_view command,
                                                  const std::vector<std::string>& arguments);

}  // namespace neuronmm::apps
