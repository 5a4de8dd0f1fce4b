// The parser of calls that are JSON: an object, or a list of them, after a mark. In the syntax of
// Hermes, Qwen 2.5 and Qwen 3, any number of calls may stand after and between pieces of content:
//
//   <tool_call>
//   {"name": "f", "arguments": {...}}
//   </tool_call>
//
// Other families have other marks, and lists in the place of objects (call_marks.h). Models that
// forget the mark write the JSON in a block (```json), or alone on a line. Without its mark, JSON
// is a call only if it names one of the request's functions. All other JSON is content.

#include <algorithm>
#include <optional>
#include <utility>

#include "serve/output/call_bytes.h"
#include "serve/output/call_marks.h"
#include "serve/output/call_opening.h"
#include "serve/output/marker_scanner.h"
#include "serve/output/tool_call_object.h"
#include "serve/output/tool_call_parser.h"

namespace neuronmm::serve {
namespace {

constexpr std::string_view kFenceEnd = "```";

class JsonCallParser : public ToolCallParser {
 public:
  JsonCallParser(CallMarks marks, std::set<std::string, std::less<>> names)
      : marks_(std::move(marks)), names_(std::move(names)), opening_(marks_.begin) {}

  void finish(OutputDeltas& out) override {
    switch (state_) {
      case State::kText:
        if (calls_ == 0 || !opening_.only_space()) out.content(opening_.held());
        break;
      case State::kOpened:
      case State::kObject:
        out.content(raw_);
        break;
      case State::kBetween:
      case State::kEnd:
      case State::kOther:
        break;
    }
  }

 protected:
  void push_byte(char c, OutputDeltas& out) override {
    switch (state_) {
      case State::kText:
        return in_text(c, out);
      case State::kOpened:
        return after_opening(c, out);
      case State::kObject:
        return in_object(c, out);
      case State::kBetween:
        return between(c, out);
      case State::kEnd:
        return at_end(c, out);
      case State::kOther:
        return in_other_json(c, out);
    }
  }

 private:
  enum class State {
    kText,
    kOpened,   // after an opening: JSON may follow
    kObject,   // in the object of a call
    kBetween,  // after a call: another may follow
    kEnd,      // after all calls of an opening: its end mark may follow
    kOther,    // in JSON that is no call
  };
  using Kind = CallOpening::Kind;

  bool is_marked() const { return kind_ == Kind::kMark; }

  void in_text(char c, OutputDeltas& out) {
    std::string certain;
    const auto kind = opening_.push(c, certain);
    out.content(certain);
    if (!kind) return;
    kind_ = *kind;
    in_list_ = false;
    raw_ = opening_.held();
    opening_.clear();
    state_ = State::kOpened;
    json_begin_ = raw_.size();
    if (kind_ != Kind::kJson) return;
    raw_.pop_back();
    --json_begin_;
    after_opening(c, out);
  }

  void after_opening(char c, OutputDeltas& out) {
    if (!is_call_space(c) && c != '{' && (c != '[' || in_list_)) return reject(c, out);
    if (c == '{') {
      begin_object();
      return in_object(c, out);
    }
    if (c == '[') {
      in_list_ = true;
      json_begin_ = raw_.size();
    }
    if (is_call_space(c) && !in_list_) json_begin_ = raw_.size() + 1;
    raw_ += c;
  }

  void begin_object() {
    object_.emplace(calls_, CallObjectRules{.name_is_key = is_marked() && marks_.name_key.empty(),
                                            .names = is_marked() ? nullptr : &names_});
    state_ = State::kObject;
  }

  void in_object(char c, OutputDeltas& out) {
    const bool was_sent = object_->sent();
    const ToolCallObject::Step step = object_->push(c, out);
    const bool sent = object_->sent();
    if (sent && !was_sent) {
      ++calls_;
      raw_.clear();
    }
    if (step == ToolCallObject::Step::kInvalid) return sent ? back_to_text(c, out) : reject(c, out);
    if (!sent) raw_ += c;
    if (step != ToolCallObject::Step::kEnd) return;
    raw_.clear();
    state_ = State::kBetween;
  }

  // Returns whether a byte may stand between two calls. Small models write a brace too many.
  bool is_between(char c) const {
    return is_call_space(c) || (c == ',' && raw_.find(',') == std::string::npos) ||
           (!in_list_ && (c == ';' || c == '}'));
  }

  // Expects another call, or the end of the calls.
  void between(char c, OutputDeltas& out) {
    if (is_between(c)) {
      raw_ += c;
    } else if (c == '{') {
      json_begin_ = raw_.size();
      begin_object();
      in_object(c, out);
    } else if (c == ']' && in_list_) {
      raw_.clear();
      state_ = State::kEnd;
    } else {
      state_ = State::kEnd;
      for (const char byte : std::exchange(raw_, {})) push_byte(byte, out);
      push_byte(c, out);
    }
  }

  // Skips white space and the end mark, which a model may forget.
  void at_end(char c, OutputDeltas& out) {
    if (raw_.empty()) skipped_ = 0;
    raw_ += c;
    const std::string_view mark = is_marked() ? std::string_view(marks_.end) : kFenceEnd;
    const char* const skipped = is_marked() ? " \n\t\r" : " \n\t\r}";
    skipped_ = std::min(raw_.find_first_not_of(skipped, skipped_), raw_.size());
    const std::string_view rest = std::string_view(raw_).substr(skipped_);
    if (kind_ == Kind::kJson || !mark.starts_with(rest)) {
      state_ = State::kText;
      opening_.leave_line();
      for (const char byte : std::exchange(raw_, {})) push_byte(byte, out);
    } else if (rest == mark && !mark.empty()) {
      raw_.clear();
      state_ = State::kText;
    }
  }

  // Goes back to the text with a byte that belongs to no call.
  void back_to_text(char c, OutputDeltas& out) {
    raw_.clear();
    state_ = State::kText;
    if (kind_ == Kind::kFence) opening_.enter_code();
    opening_.leave_line();
    in_text(c, out);
  }

  // Passes on the held bytes as content, because they are no call. Other JSON is read to its end,
  // so that nothing inside it is taken for a call.
  void reject(char c, OutputDeltas& out) {
    const std::string raw = std::exchange(raw_, {});
    out.content(raw);
    if (is_marked()) return back_to_text(c, out);
    other_ = {};
    state_ = State::kOther;
    for (size_t i = json_begin_; i < raw.size() && state_ == State::kOther; ++i) scan_other(raw[i]);
    if (kind_ == Kind::kFence) opening_.enter_code();
    opening_.leave_line();
    push_byte(c, out);
  }

  void scan_other(char c) {
    if (other_.push(c) != JsonScanner::Step::kMore) state_ = State::kText;
  }

  void in_other_json(char c, OutputDeltas& out) {
    scan_other(c);
    if (state_ == State::kOther) return out.content(std::string_view(&c, 1));
    in_text(c, out);
  }

  const CallMarks marks_;
  const std::set<std::string, std::less<>> names_;
  State state_ = State::kText;
  CallOpening opening_;
  Kind kind_ = Kind::kMark;  // the opening of the current calls
  bool in_list_ = false;
  std::optional<ToolCallObject> object_;
  // The bytes of the current call and of what precedes it, until the call is passed on, and the
  // place where their JSON begins.
  std::string raw_;
  size_t json_begin_ = 0;
  size_t skipped_ = 0;  // bytes at the beginning of raw_ that stand before the end mark
  JsonScanner other_;   // of JSON that is no call
};

}  // namespace

std::unique_ptr<ToolCallParser> make_json_call_parser(CallMarks marks,
                                                      std::set<std::string, std::less<>> names) {
  return std::make_unique<JsonCallParser>(std::move(marks), std::move(names));
}

}  // namespace neuronmm::serve
