#include "training/output_gradients.h"

#include <algorithm>

namespace neuronmm::training {
namespace {

// A model whose layers are in memory, or come and go.
template <typename T>
class Pass {
 public:
  Pass(Model<T>& model, const Sequences& sequences, const OutputObserver<T>& observer)
      : model_(model), sequences_(sequences), observer_(observer) {
    for (int64_t i = 0; i < model.num_layers(); ++i) one_by_one_.push_back(!model.has_layer(i));
  }

  // Fills `inputs` with the hidden states before every layer and behind the last.
  Status forward(std::vector<Rows<T>>& inputs) {
    for (int64_t i = 0; i < model_.num_layers(); ++i) {
      NMM_TRY(with_layer(i, [&](Layer<T>& layer) {
        Tape<T> silent(model_.precision(), false);
        const Tensor<T> x = make_tensor(std::move(inputs.back()));
        Tensor<T> y = layer.run(silent, x, sequences_);
        inputs.back() = std::move(x->data);
        inputs.push_back(std::move(y->data));
      }));
    }
    return {};
  }

  // Turns the gradient behind the last layer into that before the first.
  Status backward(std::vector<Rows<T>>& inputs, Rows<T>& gradient) {
    for (int64_t i = model_.num_layers() - 1; i >= 0; --i) {
      inputs.pop_back();
      NMM_TRY(with_layer(i, [&](Layer<T>& layer) {
        Tape<T> tape(model_.precision());
        const Tensor<T> x = make_tensor(std::move(inputs.back()), true);
        inputs.back() = Rows<T>();
        const Tensor<T> y = layer.run(
            tape, x, sequences_, [&](const MlpGradients<T>& of) { observer_.on_layer(i, of); });
        y->gradient = std::move(gradient);
        tape.read_backwards();
        gradient = std::move(x->gradient);
      }));
    }
    return {};
  }

 private:
  template <typename Body>
  Status with_layer(int64_t index, const Body& body) {
    const bool comes = one_by_one_[static_cast<size_t>(index)];
    if (comes) NMM_TRY(model_.read_layer(index));
    body(model_.layer(index));
    if (comes) model_.drop_layer(index);
    return observer_.layer_done ? observer_.layer_done() : Status();
  }

  Model<T>& model_;
  const Sequences& sequences_;
  const OutputObserver<T>& observer_;
  std::vector<bool> one_by_one_;
};

}  // namespace

template <typename T>
Result<OwnLabels> output_gradients(Model<T>& model, std::span<const TokenSequence> sequences,
                                   uint64_t seed, int64_t first_sequence,
                                   const OutputObserver<T>& observer) {
  NMM_TRY(model.check(sequences));
  const Sequences lengths = lengths_of(sequences);
  Pass<T> pass(model, lengths, observer);
  std::vector<Rows<T>> inputs;
  {
    Tape<T> silent(model.precision(), false);
    inputs.push_back(std::move(model.embed(silent, sequences)->data));
  }
  NMM_TRY(pass.forward(inputs));
  OwnLabels own;
  Rows<T> gradient(inputs.back().rows(), inputs.back().columns());
  int64_t first = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const int64_t count = lengths.lengths[i];
    Rows<T> part;
    const LabelSeed label_seed = {seed, first_sequence + static_cast<int64_t>(i)};
    own.loss += own_label_loss<T>(model.head(), inputs.back().view().row_range(first, count),
                                  label_seed, model.precision(), own.labels.emplace_back(), &part);
    std::copy_n(part.data(), part.size(), gradient.row(first));
    first += count;
  }
  NMM_TRY(pass.backward(inputs, gradient));
  return own;
}

template Result<OwnLabels> output_gradients(Model<float>&, std::span<const TokenSequence>, uint64_t,
                                            int64_t, const OutputObserver<float>&);
template Result<OwnLabels> output_gradients(Model<double>&, std::span<const TokenSequence>,
                                            uint64_t, int64_t, const OutputObserver<double>&);

}  // namespace neuronmm::training
