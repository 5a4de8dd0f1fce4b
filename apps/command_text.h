#pragma once
// Shows a command line in a report. provenance.h uses it.

#include <string>
#include <vector>

namespace neuronmm::apps {

// Returns the command line as a shell would read it. Values of options that hold secrets, such as
// --api-key, and passwords in URLs are replaced by ***.
std::string command_text(const std::vector<std::string>& arguments);

}  // namespace neuronmm::apps
