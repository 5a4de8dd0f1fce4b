#include "serve/output/marker_scanner.h"

#include <algorithm>

namespace neuronmm::serve {

void MarkerScanner::clear() {
  held_.clear();
  space_ = 0;
}

bool MarkerScanner::push(char c, std::string& out) {
  held_ += c;
  for (;;) {
    space_ = std::min(held_.find_first_not_of(" \n\t\r", space_), held_.size());
    const std::string_view rest = mark();
    bool may_follow = rest.empty();
    for (const std::string& mark : marks_) {
      if (mark == rest) return true;
      may_follow = may_follow || mark.starts_with(rest);
    }
    if (may_follow) return false;
    out.append(held_, 0, space_ + 1);
    held_.erase(0, std::min(space_ + 1, held_.size()));
    space_ = 0;
  }
}

}  // namespace neuronmm::serve
