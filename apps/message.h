#pragma once
// Messages that a command prints on standard error: notes, warnings and errors, which are not part
// of its report (report_writer.h). Most commands use it. A message that cannot be written is
// dropped, because that is no reason to end the work.

#include <cstdio>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace neuronmm::apps {

// Formats a message and writes it to standard error. The caller ends it with a newline. The text is
// not escaped; printable() (base/printable.h) makes text from files safe.
template <typename... Args>
void print_message(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  [[maybe_unused]] const size_t ignored = std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace neuronmm::apps
