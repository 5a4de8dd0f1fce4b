#pragma once
// Text up to a mark, byte by byte. White space and what may become the mark are held back, because
// both go if the mark comes.

#include <string>
#include <string_view>

namespace neuronmm::serve {

class MarkerScanner {
 public:
  explicit MarkerScanner(std::string_view mark) : mark_(mark) {}
  // Appends to `out` what is certain to stand before any mark. True: the mark ends with this byte;
  // held() is what came with it.
  bool push(char c, std::string& out);
  const std::string& held() const { return held_; }
  void clear() { held_.clear(); }
  bool only_space() const;  // is held

 private:
  size_t space() const;  // at the beginning of what is held

  std::string_view mark_;
  std::string held_;
};

}  // namespace neuronmm::serve
