#include "serve/output/truncated_json.h"

#include <vector>

namespace neuronmm::serve {
namespace {

// Finds the longest prefix of a JSON text that becomes valid JSON once its open objects and arrays
// are closed.
class CompletePrefix {
 public:
  std::string closed(std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) push(text, i);
    return std::string(text.substr(0, end_)) + closing_brackets_;
  }

 private:
  struct Level {
    char close;
    bool in_value;  // always true for an array
  };

  void push(std::string_view text, size_t i) {
    const char c = text[i];
    if (in_string_) return push_in_string(c, i);
    switch (c) {
      case '"':
        in_string_ = true;
        break;
      case '{':
      case '[':
        levels_.push_back({c == '{' ? '}' : ']', c == '['});
        end_at(i + 1);
        break;
      case '}':
      case ']':
        if (!levels_.empty()) levels_.pop_back();
        end_at(i + 1);
        break;
      case ':':
        if (!levels_.empty()) levels_.back().in_value = true;
        break;
      case ',':
        end_at(i);
        if (!levels_.empty()) levels_.back().in_value = levels_.back().close == ']';
        break;
      default:
        break;
    }
  }

  void push_in_string(char c, size_t i) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
      if (!levels_.empty() && levels_.back().in_value) end_at(i + 1);
    }
  }

  // Records that the text could end here. Levels deeper than the parser accepts are ignored.
  void end_at(size_t end) {
    constexpr size_t kDeepest = 100;  // as deep as parse_json_text() reads (io/json_builder.h)
    if (levels_.size() > kDeepest) return;
    end_ = end;
    closing_brackets_.clear();
    for (auto level = levels_.rbegin(); level != levels_.rend(); ++level)
      closing_brackets_ += level->close;
  }

  std::vector<Level> levels_;
  bool in_string_ = false, escaped_ = false;
  size_t end_ = 0;
  std::string closing_brackets_;
};

}  // namespace

Json parse_truncated_object(std::string_view text) {
  auto parsed = parse_json_text(text, "");
  if (!parsed.ok()) parsed = parse_json_text(CompletePrefix().closed(text), "");
  return parsed.ok() && parsed->is_object() ? *std::move(parsed) : Json::object();
}

}  // namespace neuronmm::serve
