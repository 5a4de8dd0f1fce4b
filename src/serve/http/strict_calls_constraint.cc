#include "serve/http/strict_calls_constraint.h"

#include <algorithm>
#include <string>
#include <utility>

#include "serve/grammar/matcher.h"
#include "serve/grammar/token_mask.h"
#include "serve/http/owned_constraint.h"

namespace neuronmm::serve {
namespace {

// Bytes that may stand before a call that leads an answer, and between such calls.
constexpr std::string_view kBetweenCalls = " \n\r\t;";

// Finds the beginning of a call without a marker: {"name": "f" after the beginning of a line, a
// bracket or a comma.
class BareCallSearch {
 public:
  // Adds text. Returns the object so far if its first member is now a complete name.
  std::string_view push(std::string_view text) {
    for (const char c : text) push_byte(c);
    return has_name_ ? std::string_view(object_) : std::string_view();
  }
  void clear() {
    *this = {};
    may_begin_ = false;
  }

 private:
  static constexpr std::string_view kNameKey = "{\"name\":\"";
  static constexpr size_t kMostBytes = 512;  // assumed: a longer beginning is no call

  void push_byte(char c) {
    const bool is_space = c == ' ' || c == '\n' || c == '\r' || c == '\t';
    if (!object_.empty()) {
      object_ += c;
      if (has_name_) return;
      if (is_space && matched_ < kNameKey.size()) return;
      if (matched_ < kNameKey.size() && c == kNameKey[matched_]) {
        ++matched_;
        return;
      }
      has_name_ = matched_ == kNameKey.size() && c == '"';
      if (has_name_ || (matched_ == kNameKey.size() && object_.size() < kMostBytes)) return;
      object_.clear();
    }
    if (c == '{' && may_begin_) {
      object_ = c;
      matched_ = 1;
    }
    may_begin_ = c == '\n' || c == '[' || c == ',' || (may_begin_ && is_space);
  }

  bool may_begin_ = true;  // whether an object may begin here
  std::string object_;     // the text of an object that may be a call
  size_t matched_ = 0;     // bytes of kNameKey
  bool has_name_ = false;
};

class StrictCallsConstraint : public model::TokenConstraint {
 public:
  StrictCallsConstraint(StrictCalls calls, const grammar::TokenVocabulary& vocabulary)
      : calls_(std::move(calls)), vocabulary_(vocabulary) {}

  void allowed_tokens(std::span<uint64_t> allowed) override {
    if (call_) return call_->allowed_tokens(allowed);
    std::ranges::fill(allowed, ~uint64_t{0});
    if (!may_call_) return;
    for (const text::TokenId token : calls_.mark->overrunning(matched_))
      grammar::forbid_token(allowed, token);
  }

  void advance(text::TokenId token) override {
    if (call_) {
      call_->advance(token);
      if (call_->must_end()) call_.reset();
      return;
    }
    const std::string_view text = vocabulary_.text(token);
    if (may_call_) find_marker(text);
    if (!call_ && calls_.bare_call) find_bare_call(text);
  }

  bool must_end() const override { return false; }

  std::unique_ptr<model::TokenConstraint> clone() const override {
    return std::make_unique<StrictCallsConstraint>(*this);
  }

 private:
  void find_marker(std::string_view text) {
    const CallMarker& marker = calls_.marker;
    matched_ = calls_.mark->advance(matched_, text).matched;
    if (matched_ == calls_.mark->text().size()) {
      matched_ = 0;
      search_.clear();
      call_ = OwnedConstraint(calls_.make_call());
    } else if (marker.leads && matched_ == 0 && text != marker.before &&
               text.find_first_not_of(kBetweenCalls) != std::string_view::npos) {
      may_call_ = false;
    }
  }

  // Begins to constrain an object that the grammar of a call allows so far. Other JSON stays free.
  void find_bare_call(std::string_view text) {
    const std::string object(search_.push(text));
    if (object.empty()) return;
    search_.clear();
    auto matcher = std::make_unique<grammar::Matcher>(calls_.bare_call);
    if (matcher->advance_text(object) && !matcher->must_end())
      call_ = OwnedConstraint(std::move(matcher));
  }

  const StrictCalls calls_;
  const grammar::TokenVocabulary& vocabulary_;
  OwnedConstraint call_;  // of the call that has begun
  size_t matched_ = 0;    // bytes of the marker that were read
  bool may_call_ = true;  // whether a marker would still begin a call
  BareCallSearch search_;
};

}  // namespace

std::unique_ptr<model::TokenConstraint> constrain_calls(
    const StrictCalls& calls, const grammar::TokenVocabulary& vocabulary) {
  return std::make_unique<StrictCallsConstraint>(calls, vocabulary);
}

}  // namespace neuronmm::serve
