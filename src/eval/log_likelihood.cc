#include "eval/log_likelihood.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "model/token_logprobs.h"

namespace neuronmm::eval {
namespace {

using model::Transformer;
using text::TokenId;

// The largest number of items that go through the model together, each with a cache, and of tokens
// that their choices share. Assumed: more do not make matrix products faster.
constexpr size_t kGroupItems = 16;
constexpr int64_t kGroupTokens = 1024;
// The largest number of rows of logits at a time. Assumed: as fp32 they take 0.3 GB with Qwen's
// vocabulary of 152 thousand.
constexpr int64_t kPassTokens = 512;

// A span of an item's input tokens, which the choices [first_choice, end_choice) have in common.
struct InputSpan {
  size_t item = 0;
  size_t first_choice = 0, end_choice = 0;
  int64_t first = 0, count = 0;
};

// Scores all items, group by group.
class Scorer {
 public:
  Scorer(const Transformer& transformer, const std::vector<EncodedItem>& items)
      : transformer_(transformer), items_(items) {
    int64_t longest = 1;
    for (const EncodedItem& item : items) {
      result_.items.emplace_back(item.requests.size());
      for (const EncodedRequest& request : item.requests) {
        result_.tokens += std::ssize(request.inputs);
        longest = std::max(longest, std::ssize(request.inputs));
      }
    }
    // The caches have space for the longest request; all groups use the same ones.
    for (size_t i = 0; i < std::min(kGroupItems, items.size()); ++i) {
      caches_.push_back(transformer.make_cache(longest, DType::kF32));
    }
  }

  // Scores one group of items, beginning with item `first`, and returns the first item of the next
  // group. One pass computes what each item's choices share, for all items of the group. Then come
  // the first choices of all items, then the second ones, and so on. Each item has a cache, and
  // every choice begins where the shared part of its item ends.
  size_t score_group(size_t first) {
    first_ = end_ = first;
    size_t choices = 0;
    int64_t tokens = 0;
    std::vector<InputSpan> shared;
    for (; end_ < items_.size() && end_ - first_ < kGroupItems && tokens < kGroupTokens; ++end_) {
      const EncodedItem& item = items_[end_];
      choices = std::max(choices, item.requests.size());
      tokens += item.shared_tokens();
      cache(end_).set_length(0);
      if (!item.requests.empty())
        cache(end_).set_expected_tokens(std::ssize(item.requests[0].inputs));
      if (item.shared_tokens() == 0) continue;
      shared.push_back({end_, 0, item.requests.size(), 0, item.shared_tokens()});
    }
    // The last shared token predicts the first token of every choice, so only its row is needed.
    run(shared, Transformer::Logits::kLast);
    for (size_t choice = 0; choice < choices; ++choice) score_choice(choice);
    return end_;
  }

  LogLikelihoods& result() { return result_; }

 private:
  ops::KvCache& cache(size_t item) { return *caches_[item - first_]; }

  // Scores choice number `choice` of every item of the group, from where it differs from the item's
  // other choices.
  void score_choice(size_t choice) {
    std::vector<InputSpan> pass;
    int64_t remaining = kPassTokens;
    for (size_t i = first_; i < end_; ++i) {
      const EncodedItem& item = items_[i];
      if (choice >= item.requests.size()) continue;
      // The cache goes back to the end of the shared part, and the previous choice's keys and
      // values are overwritten.
      cache(i).set_length(item.shared_tokens());
      const int64_t length = std::ssize(item.requests[choice].inputs);
      cache(i).set_expected_tokens(length);
      for (int64_t first = item.shared_tokens(); first < length;) {
        const int64_t count = std::min(remaining, length - first);
        pass.push_back({i, choice, choice + 1, first, count});
        first += count;
        remaining -= count;
        if (remaining > 0) continue;
        run(pass, Transformer::Logits::kAll);
        pass.clear();
        remaining = kPassTokens;
      }
    }
    run(pass, Transformer::Logits::kAll);
  }

  // Runs the model once over these spans and adds the log-probabilities that the logits give.
  void run(const std::vector<InputSpan>& pass, Transformer::Logits which) {
    if (pass.empty()) return;
    std::vector<model::SequenceTokens> batch;
    std::vector<Prediction> predictions;
    int64_t row = 0;
    for (const InputSpan& span : pass) {
      const std::span<const TokenId> inputs(items_[span.item].requests[span.first_choice].inputs);
      batch.push_back({inputs.subspan(span.first, span.count), &cache(span.item), which});
      result_.computed_tokens += span.count;
      const int64_t rows = which == Transformer::Logits::kAll ? span.count : 1;
      const size_t first = predictions.size();
      append_predictions(span, row, rows, predictions);
      batch.back().wanted = wanted_logits(std::span(predictions).subspan(first), row, rows);
      row += rows;
    }
    const model::Predictions found = transformer_.predict(batch);
    parallel_for(std::ssize(predictions), [&](int64_t i) {
      Prediction& p = predictions[i];
      p.value = model::log_probability(found.row(p.row), p.target, found.log_sum(p.row));
    });
    for (const Prediction& p : predictions) *p.sum += p.value;
  }

  struct Prediction {
    int64_t row;  // the row of the logits
    TokenId target;
    double* sum;
    double value;
  };

  // Returns which logits of the rows from first_row on these predictions need.
  static std::vector<ops::WantedLogits> wanted_logits(std::span<const Prediction> predictions,
                                                      int64_t first_row, int64_t rows) {
    std::vector<ops::WantedLogits> wanted(static_cast<size_t>(rows), {.all = false});
    for (const Prediction& p : predictions) {
      const ops::WantedLogits one = {.all = false, .named = {p.target}, .log_sum = true};
      auto& all = wanted[static_cast<size_t>(p.row - first_row)];
      all = union_of(all, one);
    }
    return wanted;
  }

  // Lists the predictions that a span yields. The rows from first_row on follow the last `rows`
  // tokens of the span.
  void append_predictions(const InputSpan& span, int64_t first_row, int64_t rows,
                          std::vector<Prediction>& predictions) {
    const int64_t first = span.first + span.count - rows;
    for (size_t choice = span.first_choice; choice < span.end_choice; ++choice) {
      const EncodedRequest& request = items_[span.item].requests[choice];
      // Rows that predict the context's own tokens are not scored.
      const int64_t unscored = std::max<int64_t>(0, request.first_prediction() - first);
      for (int64_t i = unscored; i < rows; ++i) {
        const TokenId target = request.targets[first + i - request.first_prediction()];
        predictions.push_back({first_row + i, target, &result_.items[span.item][choice], 0.0});
      }
    }
  }

  const Transformer& transformer_;
  const std::vector<EncodedItem>& items_;
  std::vector<std::unique_ptr<ops::KvCache>> caches_;
  size_t first_ = 0, end_ = 0;  // the current group
  LogLikelihoods result_;
};

Status check_ids(const Transformer& transformer, const std::vector<EncodedItem>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    for (const EncodedRequest& request : items[i].requests) {
      for (const auto* tokens : {&request.inputs, &request.targets}) {
        const Status status = model::check_token_ids(*tokens, transformer.config());
        if (!status) return fail("item {}: {}", i + 1, status.error().message);
      }
    }
  }
  return {};
}

}  // namespace

Result<LogLikelihoods> log_likelihoods(const Transformer& transformer,
                                       const std::vector<EncodedItem>& items, Progress& progress) {
  NMM_TRY(check_ids(transformer, items));
  const double start = transformer.backend().clock_seconds();
  Scorer scorer(transformer, items);
  for (size_t done = 0; done < items.size();) {
    if (interrupted()) {
      return interrupted_error(fmt::format("{} of {} items done", done, items.size()));
    }
    const size_t end = scorer.score_group(done);
    for (; done < end; ++done) {
      for (const double value : scorer.result().items[done]) {
        if (!std::isfinite(value)) {
          return fail("item {} has a log-likelihood that is not finite: {}", done + 1, value);
        }
      }
    }
    progress.update(static_cast<int64_t>(done));
  }
  LogLikelihoods result = std::move(scorer.result());
  result.seconds = transformer.backend().clock_seconds() - start;
  return result;
}

}  // namespace neuronmm::eval
