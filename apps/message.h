#pragma once
// What a command says beside its report, on standard error. A message that cannot be written there
// is no reason to end the work.

#include <cstdio>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace neuronmm::apps {

template <typename... Args>
void print_message(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  [[maybe_unused]] const size_t ignored = std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace neuronmm::apps
