#include "eval/folder_divergence.h"

#include <algorithm>
#include <cmath>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/task_labels.h"
#include "io/model_folder.h"
#include "model/layer_by_layer.h"
#include "model/transformer.h"

namespace neuronmm::eval {
namespace {

namespace fs = std::filesystem;
using Sequences = std::span<const std::vector<text::TokenId>>;

// Computes both models' hidden states layer by layer, then compares their predictions.
class FolderComparison {
 public:
  FolderComparison(const io::ModelFolder& dense, const io::ModelFolder& other, Sequences sequences,
                   const ops::Backend& backend, Progress& progress)
      : dense_(dense),
        other_(other),
        sequences_(sequences),
        backend_(backend),
        progress_(progress) {}

  Result<std::vector<SequenceDivergence>> run() {
    for (const auto& sequence : sequences_) {
      NMM_TRY(check_sequence(dense_.config, other_.config, sequence));
    }
    progress_.start(task::kComparing, dense_.config.num_hidden_layers +
                                          other_.config.num_hidden_layers + std::ssize(sequences_));
    NMM_ASSIGN(Matrix dense_hidden, final_hidden_states(dense_));
    NMM_ASSIGN(Matrix other_hidden, final_hidden_states(other_));
    NMM_ASSIGN(const auto dense_head, load_head(dense_));
    NMM_ASSIGN(const auto other_head, load_head(other_));
    std::vector<SequenceDivergence> result;
    int64_t first = 0;
    for (const auto& sequence : sequences_) {
      const int64_t inputs = std::ssize(sequence) - 1;  // the last token is a target only
      SequenceDivergence& tokens = result.emplace_back(static_cast<size_t>(inputs));
      for (int64_t at = 0; at < inputs; at += kDivergencePiece) {
        const int64_t count = std::min(kDivergencePiece, inputs - at);
        const Matrix a = dense_head.logits(dense_hidden.view().row_range(first + at, count));
        const Matrix b = other_head.logits(other_hidden.view().row_range(first + at, count));
        parallel_for(count, [&](int64_t i) {
          const auto columns = static_cast<size_t>(a.columns());
          tokens[static_cast<size_t>(at + i)] = compare_predictions(
              {a.row(i), columns}, {b.row(i), columns}, sequence[static_cast<size_t>(at + i) + 1]);
        });
      }
      first += std::ssize(sequence);
      NMM_TRY(step());
    }
    progress_.finish();
    return result;
  }

 private:
  Status step() {
    progress_.update(++done_);
    if (interrupted()) return interrupted_error("the divergence is not measured");
    return {};
  }
  Result<Matrix> final_hidden_states(const io::ModelFolder& model) {
    return model::run_layer_by_layer(model.checkpoint, model.config, sequences_, backend_,
                                     [this] { return step(); });
  }
  Result<model::LmHead> load_head(const io::ModelFolder& model) const {
    auto head = model::LmHead::load(model.checkpoint, model.config, backend_);
    model.checkpoint.release_pages();  // otherwise packed weights would be in memory twice
    return head;
  }

  const io::ModelFolder &dense_, &other_;
  Sequences sequences_;
  const ops::Backend& backend_;
  Progress& progress_;
  int64_t done_ = 0;
};

// Finds predictions that are not finite. They come from weights that hold NaN, or that overflowed
// when they were rounded to the dtype of their folder.
Status check_finite(const fs::path& dense, const SequenceDivergence& sequence) {
  for (const TokenDivergence& token : sequence) {
    if (!std::isfinite(token.dense_loss)) {
      return fail("{}: its predictions hold NaN or infinity", dense.string());
    }
    if (!std::isfinite(token.loss) || !std::isfinite(token.divergence)) {
      return fail("the model made of {} predicts NaN or infinity where that one does not",
                  dense.string());
    }
  }
  return {};
}

}  // namespace

Result<DivergenceSummary> folder_divergence(const fs::path& dense, const fs::path& other,
                                            Sequences sequences, const ops::Backend& backend,
                                            Progress& progress) {
  NMM_ASSIGN(const io::ModelFolder dense_model, io::open_model(dense));
  NMM_ASSIGN(const io::ModelFolder other_model, io::open_model(other));
  NMM_ASSIGN(const auto tokens,
             FolderComparison(dense_model, other_model, sequences, backend, progress).run());
  for (const SequenceDivergence& sequence : tokens) NMM_TRY(check_finite(dense, sequence));
  return summarize(tokens);
}

}  // namespace neuronmm::eval
