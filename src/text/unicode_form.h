#pragma once
// Unicode's normalization forms (Unicode Standard Annex 15).

#include <string>
#include <string_view>

namespace neuronmm::text {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// `text` (valid UTF-8) in that form: `text` itself where nothing can change, or `storage`.
std::string_view to_unicode_form(UnicodeForm form, std::string_view text, std::string& storage);

}  // namespace neuronmm::text
