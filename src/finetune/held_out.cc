#include "finetune/held_out.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace neuronmm::finetune {
namespace {

using text::TokenId;

// At most one in eight sequences of a short training text is held out. Assumed.
constexpr int64_t kLargestShare = 8;
// Tokens in a row that two different texts hardly share. Assumed.
constexpr size_t kRun = 32;

// Calls use(hash) for each run of scored tokens.
template <typename Use>
void for_each_run(const Example& example, const Use& use) {
  const std::span<const TokenId> tokens(example.tokens);
  const auto scored = tokens.subspan(static_cast<size_t>(example.scored_from));
  const size_t length = std::min(kRun, scored.size());
  for (size_t first = 0; first + length <= scored.size(); ++first) {
    const auto bytes = std::as_bytes(scored.subspan(first, length));
    use(std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  }
}

int64_t tokens_of(const Dataset& text) {
  int64_t tokens = 0;
  for (const Example& example : text.examples) tokens += example.length();
  return tokens;
}

// Returns which of the examples belong to a sample of this many.
std::vector<bool> spread(int64_t count, int64_t sample) {
  std::vector<bool> chosen(static_cast<size_t>(count));
  for (int64_t i = 0; i < sample; ++i) chosen[static_cast<size_t>(i * count / sample)] = true;
  return chosen;
}

int64_t sample_size(const Dataset& text, int64_t tokens) {
  const int64_t count = std::ssize(text.examples);
  return std::clamp<int64_t>(count * tokens / std::max<int64_t>(tokens_of(text), 1), 1, count);
}

// Moves the chosen examples into a text of their own.
Dataset take(Dataset& text, const std::vector<bool>& chosen) {
  Dataset taken, rest;
  for (size_t i = 0; i < text.examples.size(); ++i) {
    (chosen[i] ? taken : rest).examples.push_back(std::move(text.examples[i]));
  }
  text.examples = std::move(rest.examples);
  return taken;
}

}  // namespace

Dataset spread_sample(Dataset text, int64_t tokens) {
  return take(text, spread(std::ssize(text.examples), sample_size(text, tokens)));
}

Result<Dataset> hold_out(Dataset& training, int64_t tokens, const std::string& source) {
  const int64_t count = std::ssize(training.examples);
  if (count < 2) {
    return fail(
        "{}: expected at least two sequences, of which one is held out, found {}; give a "
        "longer text, a smaller --cutoff or --validation FILE",
        source, count);
  }
  return take(training, spread(count, std::min(sample_size(training, tokens),
                                               std::max<int64_t>(1, count / kLargestShare))));
}

double share_trained_on(const Dataset& held_out, const Dataset& training) {
  std::unordered_map<size_t, bool> found;
  for (const Example& example : held_out.examples) {
    for_each_run(example, [&](size_t run) { found.emplace(run, false); });
  }
  for (const Example& example : training.examples) {
    for_each_run(example, [&](size_t run) {
      if (const auto known = found.find(run); known != found.end()) known->second = true;
    });
  }
  const auto shared = std::ranges::count_if(found, [](const auto& run) { return run.second; });
  return static_cast<double>(shared) / static_cast<double>(std::max<size_t>(found.size(), 1));
}

}  // namespace neuronmm::finetune
