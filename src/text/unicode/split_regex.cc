#include "text/unicode/split_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <algorithm>
#include <cstdint>
#include <limits>

#include <pcre2.h>

#include "text/unicode/oniguruma_syntax.h"
#include "text/unicode/utf8.h"

namespace neuronmm::text {
namespace {

// The factor by which the limit grows when a match that ran out of steps begins again. All failed
// tries together take a seventh of the steps of the last one.
constexpr uint32_t kMoreSteps = 8;
// The largest pattern. The longest published one (o200k) has about 400 characters.
constexpr size_t kMaxPatternBytes = 10'000;

std::string pcre2_message(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct SplitRegex::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;

  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }
};

Result<SplitRegex> SplitRegex::compile(std::string_view pattern, Kind kind) {
  if (pattern.empty()) return fail("the pattern is empty");
  if (pattern.size() > kMaxPatternBytes)
    return fail("the pattern has {} bytes, more than {}", pattern.size(), kMaxPatternBytes);
  std::string translated(pattern);
  // A literal pattern has no syntax to translate.
  uint32_t options = PCRE2_UTF | PCRE2_LITERAL;
  if (kind == Kind::kRegex) {
    NMM_ASSIGN(translated, translate_from_oniguruma(pattern));
    // Ruby's ^ and $ always match at line ends.
    options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE;
  }
  // Copies of the tokenizer share the compiled pattern, from which any thread may match.
  auto compiled = std::make_shared<Compiled>();
  int error = 0;
  PCRE2_SIZE at = 0;
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                 options, &error, &at, nullptr);
  if (compiled->code == nullptr)
    return fail("the pattern is not a regular expression: {}", pcre2_message(error));
  // Without a JIT compiler, pcre2_match interprets the pattern.
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
  compiled->context = pcre2_match_context_create(nullptr);
  NMM_CHECK(compiled->context != nullptr);
  pcre2_set_match_limit(compiled->context, MatchBudget::kUncountedSteps);
  return SplitRegex(std::move(compiled));
}

void SplitRegex::Matches::Free::operator()(void* match_data) const {
  pcre2_match_data_free(static_cast<pcre2_match_data*>(match_data));
}

SplitRegex::Matches::Matches(const SplitRegex& regex, std::string_view text, MatchBudget& budget)
    : regex_(regex),
      text_(text),
      budget_(budget),
      match_data_(pcre2_match_data_create(1, nullptr)) {
  NMM_CHECK(match_data_ != nullptr);
}

// Returns the result of pcre2_match. All threads share the compiled pattern and its context, so a
// higher limit needs a context of its own.
int SplitRegex::Matches::match_within_budget() {
  auto* match_data = static_cast<pcre2_match_data*>(match_data_.get());
  const auto match = [&](pcre2_match_context* context) {
    const auto* text = reinterpret_cast<PCRE2_SPTR>(text_.data());
    const auto run = [&](uint32_t options) {
      return pcre2_match(regex_.compiled_->code, text, text_.size(), from_,
                         options | PCRE2_NO_UTF_CHECK, match_data, context);
    };
    const int found = run(0);
    // The interpreter keeps its stack on the heap.
    return found == PCRE2_ERROR_JIT_STACKLIMIT ? run(PCRE2_NO_JIT) : found;
  };
  int found = match(regex_.compiled_->context);
  if (found != PCRE2_ERROR_MATCHLIMIT) return found;
  const std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> context(
      pcre2_match_context_create(nullptr), pcre2_match_context_free);
  NMM_CHECK(context != nullptr);
  for (uint64_t steps = MatchBudget::kUncountedSteps; found == PCRE2_ERROR_MATCHLIMIT;) {
    steps *= kMoreSteps;
    if (!budget_.take(steps)) break;
    pcre2_set_match_limit(context.get(), static_cast<uint32_t>(std::min<uint64_t>(
                                             steps, std::numeric_limits<uint32_t>::max())));
    found = match(context.get());
  }
  return found;
}

// Follows the rules of Rust's onig crate for empty matches: an empty match may not begin where the
// previous match ended, and the search goes on one character later.
bool SplitRegex::Matches::next() {
  while (from_ <= text_.size() && !budget_.spent()) {
    const int found = match_within_budget();
    if (found < 0) {
      // The other errors are PCRE2's limits of depth and memory.
      if (found != PCRE2_ERROR_NOMATCH) budget_.exhaust();
      break;
    }
    const PCRE2_SIZE* span =
        pcre2_get_ovector_pointer(static_cast<pcre2_match_data*>(match_data_.get()));
    const bool repeats = span[0] == span[1] && has_matched_ && span[1] == end_;
    if (repeats) {
      from_ += from_ < text_.size() ? next_utf8(text_.substr(from_)).length : 1;
      continue;
    }
    begin_ = span[0];
    from_ = end_ = span[1];
    has_matched_ = true;
    return true;
  }
  from_ = text_.size() + 1;
  return false;
}

}  // namespace neuronmm::text
