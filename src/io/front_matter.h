#pragma once
// Reads the license from the front matter of a model's README.md: the YAML between two lines of ---
// at its beginning. A model made from another one inherits its license, so model_card.h copies
// these lines.

#include <string>
#include <string_view>

namespace neuronmm::io {

// Returns the lines license, license_name and license_link as far as they are there, for example
// "license: apache-2.0\n". A line is left out if its value is more than a word or an address. The
// result can therefore be copied into other front matter unchanged. It is empty if there is no
// license.
std::string license_lines(std::string_view readme);

}  // namespace neuronmm::io
