#pragma once
// The YAML between two lines of --- at the beginning of a model's README.md, as far as it concerns
// whoever makes another model of it.

#include <string>
#include <string_view>

namespace neuronmm::compress {

// "license: apache-2.0\n", with license_name and license_link where they are: what is made of a
// model has its licence. Lines whose values are more than a word or an address are left out, so
// that they can go into other front matter as they are. Empty: none is said.
std::string license_lines(std::string_view readme);

}  // namespace neuronmm::compress
