#pragma once
// The OpenAPI description of all endpoints, which GET /openapi.json returns. A test checks that the
// description and the readers of requests agree about every field.

#include <string_view>

namespace neuronmm::serve {

std::string_view openapi_json();  // the text of openapi.json

}  // namespace neuronmm::serve
