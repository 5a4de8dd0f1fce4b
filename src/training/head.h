#pragma once
// The LM head and the losses of its logits. Logits of some rows at a time are made and turned into
// their gradient, so that the logits of all tokens never exist together (arXiv 2410.10989).
//
// Letters: N rows that are scored, H hidden_size, v vocab_size. p are the student's probabilities.

#include <cstdint>
#include <span>
#include <vector>

#include "io/model_config.h"
#include "text/tokenizer/token_id.h"
#include "training/norm.h"
#include "training/tape.h"

namespace neuronmm::training {

// The final norm and the projection, with the scale and the cap of logits.
template <typename T>
struct Head {
  Parameter<T>* norm = nullptr;        // [H]
  Parameter<T>* projection = nullptr;  // [v, H]; may be the embedding table
  NormSettings norm_settings;          // its factor is 1 / logit_divisor
  double cap = 0.0;                    // 0: none

  Head() = default;
  Head(const io::ModelConfig& config, Parameter<T>& norm, Parameter<T>& projection);
  // Returns the logits [N, v] of the hidden states x [N, H] behind the last layer.
  Tensor<T> logits(Tape<T>& tape, const Tensor<T>& x) const;
};

// The seed of drawn labels. A label depends on the seed, the sequence's number, the position and
// the probabilities alone.
struct LabelSeed {
  uint64_t seed = 0;
  int64_t sequence = 0;
};

// The following functions return the sum of the losses of the rows of `hidden` [N, H], in nats. If
// `gradient` is not null, it becomes `scale` times the gradient of that sum with respect to
// `hidden`, and trained tensors of the head get their part. Sums are fp64.

// The loss of a row is -log p(label).
template <typename T>
double cross_entropy(const Head<T>& head, MatrixView<const T> hidden,
                     std::span<const text::TokenId> labels, Precision precision, double scale,
                     Rows<T>* gradient);
// The loss of a row is the divergence Σ w·log(w / p) from the teacher's probabilities w. The
// teacher has as many logits.
template <typename T>
double divergence(const Head<T>& head, MatrixView<const T> hidden, const Head<T>& teacher,
                  MatrixView<const T> teacher_hidden, Precision precision, double scale,
                  Rows<T>* gradient);
// The loss of a row is -log p(label) for a label that is drawn from p. Row i is position i of the
// sequence. Appends the labels to `labels`.
template <typename T>
double own_label_loss(const Head<T>& head, MatrixView<const T> hidden, const LabelSeed& seed,
                      Precision precision, std::vector<text::TokenId>& labels, Rows<T>* gradient);

}  // namespace neuronmm::training
