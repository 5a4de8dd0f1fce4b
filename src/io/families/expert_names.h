#pragma once
// The tensors of a mixture of experts in files, and the views that stand for them: tensors that
// hold the matrices of all experts of a layer become one tensor per matrix and expert.
// tensor_names.cc is the caller.

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/tensor.h"
#include "io/families/family.h"
#include "io/families/tensor_names.h"

namespace neuronmm::io {

// A module's name with '#' in the place of an expert's number, and the number: "mlp.experts.#.w1"
// and "3". The number is empty if the name has none.
struct NumberedModule {
  std::string pattern, number;
};
NumberedModule numbered_module(std::string_view module);
// Returns the name with the number in the place of '#'.
std::string with_number(std::string_view pattern, std::string_view number);

// Divides stacked tensors of one folder.
class ExpertViews {
 public:
  // Receives the name of a tensor, within its layer, and the tensor.
  using Add = std::function<Status(const std::string& name, const TensorView& tensor)>;

  // `tensors` owns all that is no view of the file. All outlive the object.
  ExpertViews(const std::string& folder, const ModuleNames& names, const ModelConfig& config,
              NamedTensors& tensors)
      : folder_(folder), names_(names), config_(config), tensors_(tensors) {}

  // Returns the entry of a tensor with this name within its layer, or null.
  const StackedExperts* find(std::string_view within_layer) const;
  // Passes on the matrices or biases of all experts. `stored` is the tensor's name in the file, and
  // `found` are all tensors of the file. Fails if the shape is not that of the config's experts.
  Status divide(const StackedExperts& stacked, const std::string& stored, const TensorView& tensor,
                const std::map<std::string, TensorView>& found, const Add& add);

 private:
  // The sizes of one part of a stacked tensor.
  struct Sizes {
    int64_t experts, parts, rows, columns;
  };
  Sizes sizes_of(const StackedExperts& stacked) const;
  Status divide_biases(const StackedExperts& stacked, const Sizes& sizes, const TensorView& tensor,
                       const Add& add);
  Status divide_matrices(const StackedExperts& stacked, const Sizes& sizes,
                         const TensorView& tensor, const Add& add);
  Status divide_mxfp4(const StackedExperts& stacked, const Sizes& sizes, const std::string& stored,
                      const TensorView& blocks, const std::map<std::string, TensorView>& found,
                      const Add& add);
  Status check(const std::string& stored, const TensorView& tensor, const Shape& expected) const;

  const std::string& folder_;
  const ModuleNames& names_;
  const ModelConfig& config_;
  NamedTensors& tensors_;
};

}  // namespace neuronmm::io
