#pragma once
// The OpenAPI 3.1 description of all endpoints, which GET /openapi.json returns (server_state.cc in
// serve/http). The file openapi_template.json describes the endpoints, the responses, and the parts
// of requests that depend on a "type". The requests themselves are described by the tables that
// their readers use (request_table.h).

#include <string_view>

namespace neuronmm::serve {

// Returns the description as JSON text. The text is made by the first call.
std::string_view openapi_json();
// Returns the text of openapi_template.json, which CMake compiles into the program.
std::string_view openapi_template();

}  // namespace neuronmm::serve
