#pragma once
// Ends a text that arrives in pieces at the first of several stop strings. The server's
// answers and the generation commands use it.

#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::text {

// Holds back text that may yet become a stop string. The stop that is complete first ends the text;
// if several are complete at the same byte, the longest one does. How the text is cut into pieces
// changes nothing. If all pieces and stops are whole UTF-8 characters, so are the results.
class StopStrings {
 public:
  StopStrings() = default;
  // No stop may be empty.
  explicit StopStrings(std::vector<std::string> stops);
  // Returns the new part of the text that certainly stands before any stop. Returns nothing once a
  // stop was found.
  std::string push(std::string_view piece);
  std::string finish();  // Returns the text that is held back, when no more text follows.
  bool found() const { return found_; }
  const std::string& stop() const { return stop_; }  // The stop that was found.

 private:
  // Returns where the stop that ends the text begins, and sets `stop_`. Returns npos if there is
  // none.
  size_t find_stop();
  size_t begin_of_possible_stop() const;

  std::vector<std::string> stops_;
  std::string pending_, stop_;
  bool found_ = false;
};

}  // namespace neuronmm::text
