#pragma once
// Lists of folders in environment variables, such as PATH and PYTHONPATH. An empty or relative
// folder in such a list means the current folder, in which a stranger may have left a file. This
// program therefore searches absolute folders only, and passes only these on to the programs that
// it starts.

#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::apps {

// The folders of a list that are separated by colons, in their order.
struct SearchPath {
  std::vector<std::string> absolute;
  std::vector<std::string> relative;  // without the empty ones
};
SearchPath split_search_path(std::string_view list);

// Returns the absolute folders of the variable PATH as one list. If there are none, the result is
// what shells search without PATH.
std::string safe_path_variable();

// Returns the absolute path of a program in these folders, or an empty text if none of them has it.
std::string find_program(std::string_view name, std::string_view path_variable);

}  // namespace neuronmm::apps
