#include "serve/http/thinking_constraint.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace neuronmm::serve {
namespace {

constexpr size_t kMostWhiteSpace = 4;  // bytes of white space between the thoughts and the answer

bool is_white_space(std::string_view text) {
  return !text.empty() && text.find_first_not_of(" \n\r\t") == std::string_view::npos;
}

class ThinkingConstraint : public model::TokenConstraint {
 public:
  ThinkingConstraint(std::unique_ptr<model::TokenConstraint> inner,
                     const grammar::TokenVocabulary& vocabulary, const ThoughtTokens& tokens,
                     bool inside)
      : inner_(std::move(inner)),
        vocabulary_(vocabulary),
        tokens_(tokens),
        stage_(inside ? Stage::kInside : Stage::kBefore) {}

  void allowed_tokens(std::span<uint64_t> allowed) override {
    if (stage_ == Stage::kInside) {
      if (thoughts_.empty()) find_thoughts(allowed.size());
      std::ranges::copy(thoughts_, allowed.begin());
      return;
    }
    inner_->allowed_tokens(allowed);
    if (stage_ == Stage::kBefore) allow(allowed, *tokens_.begin);
    if (stage_ == Stage::kBehind) allow_white_space(allowed);
  }

  void advance(text::TokenId token) override {
    const std::string_view text = vocabulary_.text(token);
    if (stage_ == Stage::kBefore && token == *tokens_.begin) {
      stage_ = Stage::kInside;
    } else if (stage_ == Stage::kInside) {
      if (token == *tokens_.end) stage_ = Stage::kBehind;
    } else if (stage_ == Stage::kBehind && is_white_space(text)) {
      white_space_ += text.size();
    } else {
      stage_ = Stage::kInner;
      inner_->advance(token);
    }
  }

  bool must_end() const override { return stage_ == Stage::kInner && inner_->must_end(); }

 private:
  enum class Stage { kBefore, kInside, kBehind, kInner };

  static void allow(std::span<uint64_t> allowed, text::TokenId token) {
    const auto id = static_cast<uint32_t>(token);
    allowed[id / 64] |= uint64_t{1} << (id % 64);
  }
  // Finds the tokens that thoughts may have. They are the same at every step.
  void find_thoughts(size_t words) {
    thoughts_.resize(words);
    for (int64_t id = 0; id < vocabulary_.size(); ++id) {
      const auto token = static_cast<text::TokenId>(id);
      if (token == *tokens_.end || (!vocabulary_.text(token).empty() && token != tokens_.begin &&
                                    !vocabulary_.is_stop(token)))
        allow(thoughts_, token);
    }
  }
  void allow_white_space(std::span<uint64_t> allowed) const {
    for (int64_t id = 0; id < vocabulary_.size(); ++id) {
      const std::string_view text = vocabulary_.text(static_cast<text::TokenId>(id));
      if (white_space_ + text.size() <= kMostWhiteSpace && is_white_space(text))
        allow(allowed, static_cast<text::TokenId>(id));
    }
  }

  const std::unique_ptr<model::TokenConstraint> inner_;
  const grammar::TokenVocabulary& vocabulary_;
  const ThoughtTokens tokens_;
  Stage stage_;
  size_t white_space_ = 0;
  std::vector<uint64_t> thoughts_;  // the mask within thoughts, once it is known
};

}  // namespace

std::unique_ptr<model::TokenConstraint> constrain_after_thoughts(
    std::unique_ptr<model::TokenConstraint> inner, const grammar::TokenVocabulary& vocabulary,
    const ThoughtTokens& tokens, bool inside) {
  if (!tokens.begin || !tokens.end) return inner;
  return std::make_unique<ThinkingConstraint>(std::move(inner), vocabulary, tokens, inside);
}

}  // namespace neuronmm::serve
