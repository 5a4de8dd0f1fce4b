#pragma once
// Lists the options that earlier versions had, and what replaces each of them. Program (commands.h)
// consults the list when it reports wrong usage. The Python package consults it for its keywords.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::apps {

// An option, or one value of an option, that a command does not accept any more.
struct RemovedOption {
  std::string_view command;  // for example "compress"
  std::string_view option;   // for example "--align"
  // The removed value, for example "error-aware" of --method. Empty if the whole option was
  // removed.
  std::string_view value;
  std::string_view instead;  // what to use, as the end of a sentence that begins with "use"
};
// Returns the whole list, for tests.
std::span<const RemovedOption> removed_options();

// Returns a message about the first removed option among the `arguments` of a command, or nothing
// if there is none. A value may be an argument of its own or follow "=", as in
// "--method=error-aware".
std::optional<std::string> removed_option_message(std::string_view command,
                                                  const std::vector<std::string>& arguments);

}  // namespace neuronmm::apps
