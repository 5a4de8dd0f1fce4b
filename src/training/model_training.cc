#include "training/model_training.h"

#include <algorithm>

#include "training/elementwise.h"

namespace neuronmm::training {
namespace {

// The rows of a batch that predict a scored token, and those tokens.
struct ScoredRows {
  std::vector<int64_t> rows;
  std::vector<text::TokenId> labels;

  explicit ScoredRows(const TrainingBatch& batch) {
    int64_t first = 0;
    for (size_t i = 0; i < batch.sequences.size(); ++i) {
      const TokenSequence& tokens = batch.sequences[i];
      const int64_t from = batch.first_scored.empty() ? 1 : batch.first_scored[i];
      for (int64_t t = from; t < std::ssize(tokens); ++t) {
        rows.push_back(first + t - 1);
        labels.push_back(tokens[static_cast<size_t>(t)]);
      }
      first += std::ssize(tokens);
    }
  }
};

}  // namespace

int64_t TrainingBatch::scored_tokens() const { return std::ssize(ScoredRows(*this).rows); }

template <typename T>
ModelTraining<T>::ModelTraining(Model<T>& student, Model<T>* teacher, int64_t activation_bytes)
    : student_(student), teacher_(teacher), activation_bytes_(activation_bytes) {}

template <typename T>
double ModelTraining<T>::loss(const TrainingBatch& batch, const Rows<T>* states) {
  return run(batch, 1.0, false, states);
}

template <typename T>
double ModelTraining<T>::accumulate(const TrainingBatch& batch, double scale,
                                    const Rows<T>* states) {
  return run(batch, scale, true, states);
}

template <typename T>
double ModelTraining<T>::run(const TrainingBatch& batch, double scale, bool with_gradient,
                             const Rows<T>* states) {
  const ScoredRows scored(batch);
  if (scored.rows.empty()) return 0.0;
  const Precision precision = student_.precision();
  Rows<T> own_states;
  if (teacher_ != nullptr && states == nullptr) {
    own_states = teacher_states(batch);
    states = &own_states;
  }
  Tape<T> tape(precision, with_gradient);
  Tensor<T> x = student_.embed(tape, batch.sequences);
  x = run_layers(tape, std::move(x), lengths_of(batch.sequences));
  // The head may be trained although no layer is.
  const Tensor<T> rows = take_rows(tape, x, scored.rows);
  x = nullptr;
  Rows<T> gradient;
  Rows<T>* const wanted = with_gradient ? &gradient : nullptr;
  const double sum =
      teacher_ == nullptr
          ? cross_entropy<T>(student_.head(), rows->view(), scored.labels, precision, scale, wanted)
          : divergence<T>(student_.head(), rows->view(), teacher_->head(), states->view(),
                          precision, scale, wanted);
  if (with_gradient) {
    rows->gradient = std::move(gradient);
    tape.read_backwards();
  }
  return sum;
}

template <typename T>
Rows<T> ModelTraining<T>::teacher_states(const TrainingBatch& batch) {
  Tape<T> silent(teacher_->precision(), false);
  Tensor<T> x = teacher_->embed(silent, batch.sequences);
  const Sequences sequences = lengths_of(batch.sequences);
  for (int64_t i = 0; i < teacher_->num_layers(); ++i) {
    x = teacher_->layer(i).run(silent, x, sequences);
  }
  return std::move(take_rows(silent, x, ScoredRows(batch).rows)->data);
}

// Activations of layers are kept as long as those of one more are likely to fit.
template <typename T>
Tensor<T> ModelTraining<T>::run_layers(Tape<T>& tape, Tensor<T> x, const Sequences& sequences) {
  int64_t left = activation_bytes_, most = 0;
  for (int64_t i = 0; i < student_.num_layers(); ++i) {
    Layer<T>& layer = student_.layer(i);
    if (i == 0 || most <= left || !tape.records()) {
      const int64_t before = pooled_bytes_in_use();
      x = layer.run(tape, x, sequences);
      const int64_t bytes = pooled_bytes_in_use() - before;
      most = std::max(most, bytes);
      left -= bytes;
    } else {
      x = recomputed(tape, x, [&layer, sequences](Tape<T>& again, const Tensor<T>& input) {
        return layer.run(again, input, sequences);
      });
    }
  }
  return x;
}

template class ModelTraining<float>;
template class ModelTraining<double>;

}  // namespace neuronmm::training
