#pragma once
// All tensors of a model folder by name: model.safetensors, or the shards that
// model.safetensors.index.json names.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/mapped_file.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"

namespace neuronmm::io {

class Checkpoint {
 public:
  // Errors: no folder, no weights in it, a shard in the index that is absent, a tensor that its
  // shard lacks, a tensor twice.
  static Result<Checkpoint> open(const std::filesystem::path& folder);

  // Tensors of zeros that share memory which nobody pays for: for backends that look at shapes
  // only. I32 tensors are 0, 1, 2, ..., because the numbers of pivots must ascend. `folder` is what
  // messages call it.
  static Result<Checkpoint> zeros(const std::filesystem::path& folder,
                                  const std::vector<TensorSpec>& specs);

  const std::filesystem::path& folder() const { return folder_; }
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  bool has(const std::string& name) const { return tensors_.contains(name); }
  // The tensor with exactly this shape and a float dtype, or an error that names the folder, the
  // tensor and both shapes.
  Result<TensorView> require(const std::string& name, const Shape& shape) const;
  // What a tensor stands for: of scales and groups of rounded weights and of pivots' numbers
  // nothing. Weights of 4 and 6 bits are counted in whole bytes, so that an odd last column may
  // count twice.
  int64_t parameters(const std::string& name) const;
  int64_t parameters() const;  // of all
  int64_t size_bytes() const;
  // Gives back the memory of all tensors that were read; reading one again loads it again.
  void release_pages() const;

 private:
  Status add_file(const std::string& name);
  Status check_index(const std::map<std::string, std::string>& weight_map) const;

  std::filesystem::path folder_;
  std::map<std::string, SafetensorsFile> files_;
  std::shared_ptr<const MappedFile> zeros_;
  std::shared_ptr<const std::vector<int32_t>> numbers_;  // as long as the longest I32 tensor
  std::map<std::string, TensorView> tensors_;
};

}  // namespace neuronmm::io
