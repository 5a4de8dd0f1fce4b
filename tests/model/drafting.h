#pragma once
// Helpers of the tests of speculative decoding: a backend whose clock stands still, so that prices
// do not depend on the machine, and a draft that proposes what a test says.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/draft.h"
#include "ops/forwarding_backend.h"

namespace neuronmm::model {

// With this clock a draft costs nothing, and a row kFirstCheckPrice.
class TimelessBackend : public ops::ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  double clock_seconds() const override { return 0.0; }
};

// A draft that proposes the tokens which a function returns for a text, up to the allowed number.
class ScriptedDraft : public Draft {
 public:
  using Script = std::function<std::vector<TokenId>(const Continuation& text)>;
  explicit ScriptedDraft(Script script) : script_(std::move(script)) {}

  std::unique_ptr<DraftState> begin(const std::string& /*salt*/) override {
    PriorChances prior;
    prior.fill(0.9);
    return std::make_unique<DraftState>(prior);
  }
  Status propose(std::vector<DraftTask>& tasks, const DraftPrices& /*prices*/) override {
    for (DraftTask& task : tasks) {
      if (task.most <= 0) continue;
      std::vector<TokenId> tokens = script_(*task.sequence);
      tokens.resize(std::min(tokens.size(), static_cast<size_t>(task.most)));
      if (tokens.empty()) continue;
      for (const TokenId token : tokens) task.proposals.push_back({token, 0});
      task.wanted.resize(tokens.size() + 1);
    }
    return {};
  }

 private:
  const Script script_;
};

}  // namespace neuronmm::model
