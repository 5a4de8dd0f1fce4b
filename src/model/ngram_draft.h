#pragma once
// A draft that needs no model: it looks up how the text went on where its last tokens occurred
// before (prompt lookup, A. Saxena, github.com/apoorvumang/prompt-lookup-decoding, 2023). It is of
// use for texts that repeat themselves or their prompt, for example when code is edited.

#include <memory>
#include <span>
#include <string>

#include "model/draft.h"

namespace neuronmm::model {

// The smallest number of tokens that have to agree, and the number above which more do not count.
// Assumed.
inline constexpr int64_t kLeastMatch = 2, kLongestMatch = kLeastMatch + kEvidenceGrades - 1;

// An earlier place whose tokens are those at the end of the text.
struct TextMatch {
  size_t next = 0;     // the index of the token after that place
  int64_t length = 0;  // the number of tokens that agree, up to kLongestMatch; 0 if there is none
};
// Returns the place where most tokens agree, and the latest of several.
TextMatch find_match(std::span<const TokenId> tokens);

class NgramDraft : public Draft {
 public:
  // The texts have ids below `vocabulary`.
  explicit NgramDraft(int64_t vocabulary) : vocabulary_(vocabulary) {}
  std::unique_ptr<DraftState> begin(const std::string& salt) override;
  Status propose(std::vector<DraftTask>& tasks, const DraftPrices& prices) override;

 private:
  void propose_for(DraftTask& task, const DraftPrices& prices) const;

  const int64_t vocabulary_;
};

}  // namespace neuronmm::model
