#pragma once
// Reads the tensors of one module with rounded weights, in the layouts of foreign_weights.h.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/foreign_matrix.h"
#include "io/foreign_quantization.h"

namespace neuronmm::io {

// The groups of columns [0, columns) in ranges of one size. Matrices of the same shape share them.
class GroupRanges {
 public:
  using Groups = std::shared_ptr<const std::vector<int32_t>>;
  Groups get(int64_t columns, int64_t group_size);

 private:
  std::map<std::pair<int64_t, int64_t>, Groups> known_;
};

class ForeignModule {
 public:
  // Messages begin with `folder`. `stem` is the module's name, such as
  // "model.layers.0.mlp.up_proj".
  ForeignModule(const ForeignQuantization& quantization, const std::string& folder,
                const std::map<std::string, TensorView>& tensors, const std::string& stem,
                GroupRanges& ranges)
      : quantization_(quantization),
        folder_(folder),
        tensors_(tensors),
        stem_(stem),
        ranges_(ranges) {}

  // Checks the tensors and makes the matrix.
  Result<std::unique_ptr<ForeignMatrix>> read();
  // Returns the names of the tensors that read() used.
  const std::set<std::string>& used() const { return used_; }

 private:
  Status read_gptq();
  Status read_awq();
  Status read_awq_by_rows();
  Status read_packed();
  Status read_bytes();
  Status read_transposed_grid();
  Status read_scale();
  Status read_zeros();
  Status read_zero_words(const TensorView& zeros);
  Status read_groups(const char* index_ending);
  Status read_ranges();
  Status use_ranges(int64_t size);
  Status read_group_index(const std::string& name, const TensorView& index);
  Status check_scales() const;

  const TensorView* find(const char* ending);
  Result<TensorView> need(const char* ending, DType dtype);
  Result<TensorView> need_floats(const char* ending);
  Error wrong(const char* ending, const std::string& expected, const std::string& found) const;
  Error wrong_shape(const char* ending, const std::string& expected, const TensorView& found) const;

  const ForeignQuantization& quantization_;
  const std::string& folder_;
  const std::map<std::string, TensorView>& tensors_;
  const std::string& stem_;
  GroupRanges& ranges_;
  std::set<std::string> used_;
  std::unique_ptr<ForeignMatrix> matrix_;
  int64_t columns_ = 0;
};

}  // namespace neuronmm::io
