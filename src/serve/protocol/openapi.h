#pragma once
// The OpenAPI description of all endpoints, GET /openapi.json. A test holds it and the reading of
// requests together: what one takes the other describes.

#include <string_view>

namespace neuronmm::serve {

std::string_view openapi_json();  // openapi.json

}  // namespace neuronmm::serve
