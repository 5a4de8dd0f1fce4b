#pragma once
// The web page that comes with the program.

#include <string_view>

namespace neuronmm::web {

std::string_view index_page();  // index.html

}  // namespace neuronmm::web
