#pragma once
// Values of a forward pass, and the list of calls that computes their gradients. Each operation
// computes its result and appends a call that turns the result's gradient into those of its
// inputs. Reading the list backwards is the backward pass. Every operation of this folder has both
// directions side by side in one file.
//
// Letters: M tokens of all sequences, H hidden_size.

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "training/memory.h"
#include "training/products.h"

namespace neuronmm::training {

// A matrix of activations [M, N], its gradient, and its packings, which several products share.
template <typename T>
struct Value {
  Value(Rows<T> values, bool needs) : data(std::move(values)), needs_gradient(needs) {}

  Rows<T> data;
  bool needs_gradient;
  // Empty until the first reader has added its part. Operations after it add to it.
  Rows<T> gradient;

  int64_t rows() const { return data.rows(); }
  int64_t columns() const { return data.columns(); }
  MatrixView<T> view() const { return data.view(); }
  const LeftFactor<T>& left(Precision precision) const;
  const RightFactor<T>& right(Precision precision) const;
  void add_gradient(Rows<T> part);
  // Adds `part` to some rows of the gradient, which are distinct.
  void add_gradient(std::span<const int64_t> some, const Rows<T>& part);
  // Adds A·W to the gradient.
  void add_gradient(const LeftFactor<T>& a, const RightFactor<T>& w);
  // Drops the packings, once no product of this direction needs them any more.
  void drop_packings() const {
    left_.reset();
    right_.reset();
  }

 private:
  mutable std::unique_ptr<LeftFactor<T>> left_;
  mutable std::unique_ptr<RightFactor<T>> right_;
};
template <typename T>
using Tensor = std::shared_ptr<Value<T>>;

// Makes a value. It has a gradient if `needs` is true.
template <typename T>
Tensor<T> make_tensor(Rows<T> values, bool needs = false) {
  return std::make_shared<Value<T>>(std::move(values), needs);
}

template <typename T>
struct Adapter;

// A tensor of the model: a matrix [out, in] as checkpoints hold it, or a vector, which has one row.
// Its gradient exists only while it is trained. The two packings are made when a product first
// needs them and dropped when the values change.
template <typename T>
struct Parameter {
  std::string name;  // in the checkpoint
  Rows<T> value;
  Rows<T> gradient;  // empty: not trained

  bool present() const { return rows > 0; }
  bool trained() const { return !gradient.empty(); }
  int64_t size() const { return rows * columns; }
  void set(std::string tensor_name, Rows<T> values);
  // Returns the precision of products with the parameter, on a tape of precision `of_tape`.
  Precision precision(Precision of_tape) const { return exact ? Precision::kFp32 : of_tape; }
  // Returns the factor of Y = X·W, and that of dX = dY·Wᵀ. W is [columns, rows] here.
  const RightFactor<T>& forward(Precision precision) const;
  const RightFactor<T>& backward(Precision precision) const;
  // Must be called when `value` has changed.
  void changed() {
    forward_.clear();
    backward_.clear();
  }
  // Keeps only the packing for forward passes and, if asked to, that for backward passes. The
  // parameter can then be neither trained nor read.
  void freeze(Precision precision, bool keep_backward) {
    forward(precision);
    if (keep_backward) backward(precision);
    value.clear();
  }
  void train() {
    gradient = Rows<T>(rows, columns);
    clear(gradient.view());
  }

  int64_t rows = 0, columns = 0;
  bool exact = false;                        // products with it are not rounded
  std::unique_ptr<Adapter<T>> adapter = {};  // null: none
  // Not empty: products compute with what this returns of `value` (rounding.h). `rounds_input` says
  // whether they also round what they multiply it with.
  std::function<Rows<T>(const Rows<T>&)> rounding = {};
  bool rounds_input = true;
  // Set: products compute with the values rounded to this dtype (WrittenValues).
  std::optional<DType> written = {};

 private:
  void pack(bool transposed, Precision precision) const;
  mutable RightFactor<T> forward_, backward_;
};

// Two matrices whose product is added to a weight: W + scale · B·A (LoRA, arXiv 2106.09685).
template <typename T>
struct Adapter {
  Parameter<T> a, b;  // [rank, in] and [out, rank]
  double scale = 1.0;
};

// The sequences of a batch. Their tokens are the rows of a matrix, one sequence after the other.
struct Sequences {
  std::vector<int64_t> lengths;

  int64_t tokens() const { return std::accumulate(lengths.begin(), lengths.end(), int64_t{0}); }
  int64_t longest() const { return lengths.empty() ? 0 : *std::ranges::max_element(lengths); }
};

// The calls of one forward pass.
template <typename T>
class Tape {
 public:
  // Without `records` nothing is kept, and there is no backward pass.
  explicit Tape(Precision precision, bool records = true)
      : precision_(precision), records_(records) {}

  Precision precision() const { return precision_; }
  bool records() const { return records_; }
  // Appends the call that computes the gradients of the inputs of `result`, if it needs one. The
  // call reads result->gradient, which is complete and not empty by then.
  template <typename Call>
  void record(const Tensor<T>& result, Call call) {
    if (!records_ || !result->needs_gradient) return;
    calls_.push_back([result, call = std::move(call)] {
      if (!result->gradient.empty()) call(*result);
    });
  }
  // Runs the calls from the last to the first and drops each with what it kept. The caller has set
  // the gradient of the last result.
  void read_backwards() {
    while (!calls_.empty()) {
      calls_.back()();
      calls_.pop_back();
    }
  }

 private:
  Precision precision_;
  bool records_;
  std::vector<std::function<void()>> calls_;
};

// Returns run(tape, x), of which only x is kept. The backward pass runs it once more (arXiv
// 1604.06174).
template <typename T, typename Run>
Tensor<T> recomputed(Tape<T>& tape, const Tensor<T>& x, Run run) {
  Tape<T> silent(tape.precision(), false);
  const Tensor<T> y = run(silent, x);
  tape.record(y, [x, run, precision = tape.precision()](Value<T>& result) {
    Tape<T> again(precision);
    const Tensor<T> same = run(again, x);
    same->gradient = std::move(result.gradient);
    again.read_backwards();
  });
  return y;
}

}  // namespace neuronmm::training
