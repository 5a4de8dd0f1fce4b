#include "serve/http/thinking_constraint.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "serve/grammar/token_mask.h"
#include "serve/http/owned_constraint.h"

namespace neuronmm::serve {
namespace {

using grammar::allow_token;

// The bytes of white space that may stand between the thoughts and the answer. Assumed.
constexpr size_t kMostWhiteSpace = 4;
constexpr std::string_view kWhiteSpace = " \n\r\t";

bool is_white_space(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kWhiteSpace) == std::string_view::npos;
}

// Counts the bytes that the last UTF-8 character still lacks.
class OpenCharacter {
 public:
  void push(std::string_view bytes) {
    for (const char c : bytes) {
      const auto byte = static_cast<uint8_t>(c);
      if (byte >= 0xC0)
        missing_ = byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : 1;
      else
        missing_ = byte >= 0x80 ? std::max(missing_ - 1, 0) : 0;
    }
  }
  bool is_complete() const { return missing_ == 0; }

 private:
  int missing_ = 0;
};

class ThinkingConstraint : public model::TokenConstraint {
 public:
  ThinkingConstraint(ConstraintFactory make_inner, const grammar::TokenVocabulary& vocabulary,
                     const ThinkingRules& rules)
      : make_inner_(std::move(make_inner)),
        inner_(make_inner_ ? OwnedConstraint(make_inner_()) : OwnedConstraint()),
        vocabulary_(vocabulary),
        rules_(rules),
        stage_(rules.inside ? Stage::kInside : Stage::kBefore) {}

  void allowed_tokens(std::span<uint64_t> allowed) override {
    if (stage_ == Stage::kInside) return allow_thoughts(allowed);
    if (!inner_) return allow_all(allowed);
    if (stage_ == Stage::kBefore) return allow_beginning(allowed);
    inner_->allowed_tokens(allowed);
    if (stage_ == Stage::kBehind) allow_white_space(allowed);
  }

  void advance(text::TokenId token) override {
    const std::string_view text = vocabulary_.text(token);
    switch (stage_) {
      case Stage::kBefore:
        return advance_before(token, text);
      case Stage::kInside:
        return advance_inside(text);
      case Stage::kBehind:
        if (is_white_space(text)) {
          white_space_ += text.size();
          return;
        }
        stage_ = Stage::kInner;
        [[fallthrough]];
      case Stage::kInner:
        if (inner_) inner_->advance(token);
    }
  }

  bool must_end() const override { return stage_ == Stage::kInner && inner_ && inner_->must_end(); }

  std::unique_ptr<model::TokenConstraint> clone() const override {
    return std::make_unique<ThinkingConstraint>(*this);
  }

 private:
  enum class Stage { kBefore, kInside, kBehind, kInner };

  static void allow_all(std::span<uint64_t> allowed) { std::ranges::fill(allowed, ~uint64_t{0}); }

  // Returns whether the budget is used up, so that the end mark follows.
  bool must_close() const {
    return rules_.budget && thoughts_ >= *rules_.budget && character_.is_complete();
  }

  void allow_thoughts(std::span<uint64_t> allowed) {
    if (closing_ > 0 || must_close()) {
      std::ranges::fill(allowed, 0);
      return allow_token(allowed, rules_.end_tokens[closing_]);
    }
    if (!inner_) return allow_all(allowed);
    if (free_text_.empty()) find_free_text(allowed.size());
    std::ranges::copy(free_text_, allowed.begin());
    for (const text::TokenId token : rules_.end->overrunning(matched_))
      grammar::forbid_token(allowed, token);
  }

  // Finds the tokens that thoughts may have if a format follows them. They are the same at every
  // step. An answer cannot end inside its thoughts, because the format would be missing.
  void find_free_text(size_t words) {
    free_text_.resize(words);
    for (int64_t id = 0; id < vocabulary_.size(); ++id) {
      const auto token = static_cast<text::TokenId>(id);
      const std::string_view text = vocabulary_.text(token);
      if (!text.empty() && text != rules_.begin && !vocabulary_.is_stop(token))
        allow_token(free_text_, token);
    }
  }

  // Allows what the inner constraint allows, and the tokens that spell the mark before thoughts.
  void allow_beginning(std::span<uint64_t> allowed) {
    std::ranges::fill(allowed, 0);
    if (inner_can_begin_) inner_->allowed_tokens(allowed);
    inner_allowed_.assign(allowed.begin(), allowed.end());
    const std::string_view left = std::string_view(rules_.begin).substr(before_.size());
    for (int64_t id = 0; id < vocabulary_.size(); ++id) {
      const std::string_view text = vocabulary_.text(static_cast<text::TokenId>(id));
      if (!text.empty() && left.starts_with(text))
        allow_token(allowed, static_cast<text::TokenId>(id));
    }
  }

  void allow_white_space(std::span<uint64_t> allowed) const {
    for (int64_t id = 0; id < vocabulary_.size(); ++id) {
      const std::string_view text = vocabulary_.text(static_cast<text::TokenId>(id));
      if (white_space_ + text.size() <= kMostWhiteSpace && is_white_space(text))
        allow_token(allowed, static_cast<text::TokenId>(id));
    }
  }

  // The text so far may begin both the mark and the inner constraint's text, for example "<". The
  // inner constraint therefore advances, too, as long as it can.
  void advance_before(text::TokenId token, std::string_view text) {
    before_ += text;
    const size_t begin =
        inner_ ? 0 : std::min(before_.find_first_not_of(kWhiteSpace), before_.size());
    const std::string_view seen = std::string_view(before_).substr(begin);
    if (seen.starts_with(rules_.begin)) {
      if (make_inner_) inner_ = make_inner_();
      stage_ = Stage::kInside;
      matched_ = rules_.end->advance(0, seen.substr(rules_.begin.size())).matched;
      return;
    }
    if (inner_) {
      inner_can_begin_ = inner_can_begin_ && grammar::is_allowed(inner_allowed_, token);
      if (inner_can_begin_) inner_->advance(token);
    }
    if (!rules_.begin.starts_with(seen)) stage_ = Stage::kInner;
  }

  void advance_inside(std::string_view text) {
    if (closing_ > 0 || must_close()) {
      if (++closing_ == rules_.end_tokens.size()) stage_ = Stage::kBehind;
      return;
    }
    ++thoughts_;
    character_.push(text);
    matched_ = rules_.end->advance(matched_, text).matched;
    if (matched_ == rules_.end->text().size()) stage_ = Stage::kBehind;
  }

  const ConstraintFactory make_inner_;
  OwnedConstraint inner_;
  const grammar::TokenVocabulary& vocabulary_;
  const ThinkingRules rules_;
  Stage stage_;
  // Before the thoughts: the text so far, and whether it may be the inner constraint's.
  std::string before_;
  bool inner_can_begin_ = true;
  std::vector<uint64_t> inner_allowed_;
  // In the thoughts: their tokens, the bytes of the end mark that were read, and the tokens of it
  // that were forced.
  int64_t thoughts_ = 0;
  size_t matched_ = 0, closing_ = 0;
  OpenCharacter character_;
  size_t white_space_ = 0;           // after the thoughts
  std::vector<uint64_t> free_text_;  // the mask within thoughts, once it is known
};

}  // namespace

std::unique_ptr<model::TokenConstraint> constrain_after_thoughts(
    ConstraintFactory make_inner, const grammar::TokenVocabulary& vocabulary,
    const ThinkingRules& rules) {
  return std::make_unique<ThinkingConstraint>(std::move(make_inner), vocabulary, rules);
}

}  // namespace neuronmm::serve
