#pragma once
// Unicode's normalization forms (Unicode Standard Annex 15), which normalizers apply to text.

#include <string>
#include <string_view>

namespace neuronmm::text {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// Returns `text` (valid UTF-8) in the given form. The result is `text` itself if nothing can
// change, and `storage` otherwise.
std::string_view to_unicode_form(UnicodeForm form, std::string_view text, std::string& storage);

}  // namespace neuronmm::text
