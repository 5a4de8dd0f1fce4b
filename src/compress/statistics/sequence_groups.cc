#include "compress/statistics/sequence_groups.h"

namespace neuronmm::compress {

// The sequences at the end form a group even if they have fewer than kGroupTokens tokens.
std::vector<SequenceGroup> sequence_groups(
    const std::vector<std::vector<text::TokenId>>& sequences) {
  std::vector<SequenceGroup> groups;
  int64_t tokens = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (tokens == 0) groups.push_back({i, i});
    groups.back().end = i + 1;
    tokens += std::ssize(sequences[i]);
    if (tokens >= kGroupTokens) tokens = 0;
  }
  return groups;
}

}  // namespace neuronmm::compress
