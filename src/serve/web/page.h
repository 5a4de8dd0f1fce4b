#pragma once
// The web page of the server, which is part of the program. assemble.cmake makes it from page.html,
// style/ and script/, and the HTTP server returns it for GET /.

#include <string_view>

namespace neuronmm::web {

std::string_view index_page();  // returns the HTML, with style and script in it

}  // namespace neuronmm::web
