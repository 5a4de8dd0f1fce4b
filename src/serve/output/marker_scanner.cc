#include "serve/output/marker_scanner.h"

namespace neuronmm::serve {

size_t MarkerScanner::space() const {
  const size_t end = held_.find_first_not_of(" \n\t\r");
  return end == std::string::npos ? held_.size() : end;
}

bool MarkerScanner::only_space() const { return space() == held_.size(); }

bool MarkerScanner::push(char c, std::string& out) {
  held_ += c;
  for (;;) {
    const size_t begin = space();
    const std::string_view rest = std::string_view(held_).substr(begin);
    if (mark_.starts_with(rest)) return rest.size() == mark_.size();
    out += held_.substr(0, begin + 1);
    held_.erase(0, begin + 1);
  }
}

}  // namespace neuronmm::serve
