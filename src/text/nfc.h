#pragma once
// Unicode normalization form C.

#include <string>
#include <string_view>

namespace neuronmm::text {

// `text` (valid UTF-8) in form C: `text` itself where nothing can change, or `storage`.
std::string_view normalize_nfc(std::string_view text, std::string& storage);

}  // namespace neuronmm::text
