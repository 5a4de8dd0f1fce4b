#pragma once
// Training through the whole model: distillation from a teacher, or learning from text.

#include <cstdint>
#include <vector>

#include "training/model.h"

namespace neuronmm::training {

// Some sequences and what of them counts. The loss of a token is that of predicting it from the
// tokens before it.
struct TrainingBatch {
  std::vector<TokenSequence> sequences;
  // For each sequence the first token that is scored, at least 1. Empty: all from token 1 on.
  std::vector<int64_t> first_scored = {};

  int64_t scored_tokens() const;
};

template <typename T>
class ModelTraining {
 public:
  // Without a teacher the loss of a token is −log p(token). With a teacher it is the divergence
  // from the teacher's distribution to the student's. The teacher must have the student's
  // vocabulary, and both models must outlive this object. Of the activations, `activation_bytes`
  // are kept for the backward pass, and at least those of one layer; those of other layers are
  // computed again.
  ModelTraining(Model<T>& student, Model<T>* teacher, int64_t activation_bytes);

  bool has_teacher() const { return teacher_ != nullptr; }
  // Returns the teacher's hidden states behind the last layer, [scored tokens, H]. For a text that
  // is read several times they can be kept, which saves the teacher's pass.
  Rows<T> teacher_states(const TrainingBatch& batch);
  // Returns the sum of the losses of all scored tokens. `states` are those of teacher_states(),
  // which are computed if the pointer is null.
  double loss(const TrainingBatch& batch, const Rows<T>* states = nullptr);
  // Returns the same and adds `scale` times its gradient to those of the trained tensors.
  double accumulate(const TrainingBatch& batch, double scale, const Rows<T>* states = nullptr);

 private:
  double run(const TrainingBatch& batch, double scale, bool with_gradient, const Rows<T>* states);
  Tensor<T> run_layers(Tape<T>& tape, Tensor<T> x, const Sequences& sequences);

  Model<T>& student_;
  Model<T>* teacher_;
  int64_t activation_bytes_;
};

}  // namespace neuronmm::training
