#pragma once
// The OpenAPI 3.1 description of all endpoints, which GET /openapi.json returns. The file
// openapi_template.json has the endpoints, the responses, and the parts of requests that depend on
// a "type"; the requests themselves are described by the tables that their readers use
// (request_table.h).

#include <string_view>

namespace neuronmm::serve {

// Returns the description as JSON text, which is made once.
std::string_view openapi_json();
// Returns openapi_template.json.
std::string_view openapi_template();

}  // namespace neuronmm::serve
