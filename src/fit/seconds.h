#pragma once
// The time that a model or a part of it takes in the two phases of an answer. All files of `fit`
// use it.

#include <algorithm>
#include <cstdint>

namespace neuronmm::fit {

// The number of prompt tokens that go through the model together. Decoding follows with one token
// at a time.
inline constexpr int64_t kPromptTokens = 512;

// Times of one part or model, in seconds.
struct Seconds {
  double decode = 0.0;   // one token
  double prefill = 0.0;  // a prompt
};

inline Seconds operator+(const Seconds& a, const Seconds& b) {
  return {a.decode + b.decode, a.prefill + b.prefill};
}
inline Seconds operator*(double times, const Seconds& a) {
  return {times * a.decode, times * a.prefill};
}
inline Seconds positive(const Seconds& a) {
  return {std::max(0.0, a.decode), std::max(0.0, a.prefill)};
}

}  // namespace neuronmm::fit
