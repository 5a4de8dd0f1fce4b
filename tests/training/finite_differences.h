#pragma once
// Compares gradients in fp64 with central differences.

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "drawn_model.h"
#include "training/tape.h"

namespace neuronmm::training {

using Value64 = Tensor<double>;

// A function of some matrices and parameters, and the tests of its gradient. The scalar that is
// differentiated is the sum of all outputs, each times a fixed number.
class Differences {
 public:
  using Function = std::function<Value64(Tape<double>&, const std::vector<Value64>&)>;

  explicit Differences(Function function) : function_(std::move(function)) {}

  void add_input(int64_t rows, int64_t columns) {
    const std::string name = "input" + std::to_string(inputs_.size());
    inputs_.push_back(drawn_rows<double>(name, rows, columns));
  }
  void add_parameter(Parameter<double>& parameter) {
    parameter.train();
    parameters_.push_back(&parameter);
  }

  // Compares the gradients of all entries.
  void compare_entries() {
    const std::vector<Rows<double>> gradients = all_gradients();
    for (size_t i = 0; i < gradients.size(); ++i) {
      for (int64_t j = 0; j < gradients[i].size(); ++j) {
        double* const entry = values(i).data() + j;
        const double old = *entry, step = kStep * std::max(1.0, std::abs(old));
        const double difference = slope(i, step, [&](double by) { *entry = old + by; });
        expect_near(gradients[i].data()[j], difference, name_of(i) + "[" + std::to_string(j) + "]");
      }
    }
  }

  // Compares the gradient of each tensor in one direction.
  void compare_directions() {
    const std::vector<Rows<double>> gradients = all_gradients();
    for (size_t i = 0; i < gradients.size(); ++i) {
      const Rows<double> old = copy_of<double>(values(i).view());
      const std::string name = "direction" + std::to_string(i);
      double product = 0.0;
      for (int64_t j = 0; j < old.size(); ++j) product += gradients[i].data()[j] * drawn(name, j);
      const double difference = slope(i, kStep, [&](double by) {
        for (int64_t j = 0; j < old.size(); ++j) {
          values(i).data()[j] = old.data()[j] + by * drawn(name, j);
        }
      });
      expect_near(product, difference, name_of(i));
    }
  }

 private:
  static constexpr double kStep = 6e-6;

  static void expect_near(double gradient, double difference, const std::string& what) {
    EXPECT_NEAR(gradient, difference, 1e-6 * std::abs(difference) + 3e-8) << what;
  }
  size_t count() const { return inputs_.size() + parameters_.size(); }
  Rows<double>& values(size_t i) {
    return i < inputs_.size() ? inputs_[i] : parameters_[i - inputs_.size()]->value;
  }
  std::string name_of(size_t i) const {
    return i < inputs_.size() ? "input " + std::to_string(i)
                              : parameters_[i - inputs_.size()]->name;
  }
  std::vector<Value64> tensors() const {
    std::vector<Value64> tensors;
    for (const Rows<double>& input : inputs_) {
      tensors.push_back(make_tensor(copy_of<double>(input.view()), true));
    }
    return tensors;
  }
  double value() const {
    Tape<double> silent(Precision::kFp32, false);
    const Value64 y = function_(silent, tensors());
    double sum = 0.0;
    for (int64_t i = 0; i < y->data.size(); ++i) sum += y->data.data()[i] * drawn("output", i);
    return sum;
  }
  // Returns the derivative with respect to `by` at 0. shift(0) restores everything.
  double slope(size_t i, double step, const std::function<void(double)>& shift) {
    const auto at = [&](double by) {
      shift(by);
      if (i >= inputs_.size()) parameters_[i - inputs_.size()]->changed();
      return value();
    };
    const double above = at(step), below = at(-step);
    at(0.0);
    return (above - below) / (2.0 * step);
  }
  std::vector<Rows<double>> all_gradients() {
    Tape<double> tape(Precision::kFp32);
    const std::vector<Value64> in = tensors();
    const Value64 y = function_(tape, in);
    y->gradient = drawn_rows<double>("output", y->rows(), y->columns());
    tape.read_backwards();
    std::vector<Rows<double>> gradients;
    for (const Value64& tensor : in) gradients.push_back(std::move(tensor->gradient));
    for (Parameter<double>* const parameter : parameters_) {
      gradients.push_back(copy_of<double>(parameter->gradient.view()));
    }
    for (const Rows<double>& gradient : gradients) EXPECT_FALSE(gradient.empty());
    return gradients;
  }

  Function function_;
  std::vector<Rows<double>> inputs_;
  std::vector<Parameter<double>*> parameters_;
};

}  // namespace neuronmm::training
