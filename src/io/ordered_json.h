#pragma once
// Parses JSON and keeps the order of the keys.

#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace neuronmm::io {

// Parses a text that parse_json() has accepted. n keys take n log n steps, unlike with nlohmann's
// own parser. A key that is repeated keeps its first place.
nlohmann::ordered_json parse_ordered_json(std::string_view text);

}  // namespace neuronmm::io
