#pragma once
// The end of a text that comes in pieces: at the first of several strings.

#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::text {

// What may yet become a stop is held back. Of several stops the one that is complete first ends the
// text, and of those complete together the longest: how the text is cut into pieces changes
// nothing. With pieces and stops of whole UTF-8 characters, what is given is whole characters, too.
class StopStrings {
 public:
  StopStrings() = default;
  // None may be empty.
  explicit StopStrings(std::vector<std::string> stops);
  // What of the text so far is certain to stand before any stop, and was not given yet; nothing
  // once a stop was found.
  std::string push(std::string_view piece);
  std::string finish();  // what is still held back: no more text comes
  bool found() const { return found_; }
  const std::string& stop() const { return stop_; }  // the one that was found

 private:
  // Where the stop that ends the text begins, and which it is.
  size_t find_stop();
  size_t begin_of_possible_stop() const;

  std::vector<std::string> stops_;
  std::string held_, stop_;
  bool found_ = false;
};

}  // namespace neuronmm::text
