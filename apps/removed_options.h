#pragma once
// Options that earlier versions had, and what does their job now. Program::explain() consults the
// table when it reports wrong usage, and so does the Python package for its keywords.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::apps {

struct RemovedOption {
  std::string_view command;  // "compress"
  std::string_view option;   // "--align"
  // The value that was removed, as "error-aware" of --method. Empty: the whole option was.
  std::string_view value;
  std::string_view instead;  // what to use, as the end of a sentence that begins with "use"
};
std::span<const RemovedOption> removed_options();

// The message about the first removed option among the `arguments` of a command, which may hold
// values as "--method error-aware" or "--method=error-aware". Nothing if there is none.
std::optional<std::string> removed_option_message(std::string_view command,
                                                  const std::vector<std::string>& arguments);

}  // namespace neuronmm::apps
