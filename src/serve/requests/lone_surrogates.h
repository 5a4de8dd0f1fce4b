#pragma once
// Replaces halves of UTF-16 pairs in JSON. Programs that cut a text between the halves of a
// character send them as "\ud83d". JSON allows that, but no UTF-8 text can hold it.

#include <optional>
#include <string>
#include <string_view>

namespace neuronmm::serve {

// Returns the JSON text with every lone surrogate replaced by \ufffd, which has the same length.
// Returns nothing if there is none. Runs in linear time, and any text is allowed.
std::optional<std::string> without_lone_surrogates(std::string_view json);

}  // namespace neuronmm::serve
