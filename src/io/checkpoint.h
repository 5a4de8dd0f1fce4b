#pragma once
// All tensors of a model folder by name. Names are the canonical ones of io/families/family.h,
// whatever the family of the model calls them. The folder holds model.safetensors, or the shards
// that model.safetensors.index.json lists, or it is a GGUF file (mounted_model.h). An adapter that
// was chosen for the folder (adapter.h) is merged. Every command that reads weights uses it.

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/mapped_file.h"
#include "io/mounted_model.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"

namespace neuronmm::io {

// Returns the number of the layer that a tensor belongs to, or nothing: 3 for
// "model.layers.3.mlp.up_proj.weight", with the prefix "model." or without it.
std::optional<int64_t> layer_of(std::string_view tensor);

// Returns whether the name is that of a layer, of the embedding table, of the last norm or of the
// LM head. Other tensors belong to parts that are not run, such as a vision tower.
bool is_of_decoder(std::string_view tensor);

struct ForeignWeights;
struct MergedAdapter;

// The tensors as views of memory-mapped files. Weights that another program has rounded
// (foreign_weights.h) have the dtype kForeign and the name that they would have as floats.
class Checkpoint {
 public:
  // Opens a folder. Fails if the folder is missing, has no weights or has a LoRA adapter beside
  // them, and if the chosen adapter cannot be merged. A missing shard with tensors of the decoder
  // and a tensor that occurs twice are errors, too. The index may list tensors that no shard has.
  // Tensors of a GGUF file may have the dtype kForeign.
  static Result<Checkpoint> open(const std::filesystem::path& folder);

  // Makes tensors of zeros that share memory and take none of their own, for backends that only
  // look at shapes. I32 tensors are 0, 1, 2, ..., because the numbers of pivots must ascend.
  // Messages call the checkpoint `folder`.
  static Result<Checkpoint> zeros(const std::filesystem::path& folder,
                                  const std::vector<TensorSpec>& specs);

  const std::filesystem::path& folder() const { return folder_; }
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  bool has(const std::string& name) const { return tensors_.contains(name); }
  // Returns a tensor that must have this shape and a float dtype. The error names the folder, the
  // tensor and both shapes.
  Result<TensorView> require(const std::string& name, const Shape& shape) const;
  // Returns how many parameters a tensor stands for. Scales and groups of rounded weights and the
  // numbers of pivots count as none. Weights of 4 and 6 bits are counted in whole bytes, so an odd
  // last column may count twice.
  int64_t parameters(const std::string& name) const;
  // The parameters of all tensors.
  int64_t parameters() const;
  int64_t size_bytes() const;
  // Makes one tensor of two that hold the same numbers. It has the name `table`, and the values of
  // `other` if `values_of_other` is set. The files stay as they are. model_folder.h is the caller.
  void tie(const std::string& table, const std::string& other, bool values_of_other);
  // Returns whether tie() was called.
  bool tied() const { return tied_; }
  // Says what another program has rounded, and how much memory it takes. Empty for other folders.
  const std::string& foreign_text() const;
  // Releases the memory of all tensors that were read. Reading one again loads it again.
  void release_pages() const;
  // Passes on the notice of MountedModel::conversion(), if there is one (base/notices.h).
  void notify_conversion() const;
  // Returns whether an adapter (adapter.h) was merged into the tensor.
  bool adapted(const std::string& name) const;
  // Returns whether an adapter gave the model an LM head of its own, which the folder ties.
  bool untied() const;
  // Returns whether the tensors are those of a GGUF file.
  bool mounted() const { return mounted_ != nullptr; }

 private:
  static Result<Checkpoint> open_files(const std::filesystem::path& folder);
  Status add_file(const std::string& name);
  Status decode_foreign_weights();
  Status translate_names();
  Status merge_adapter();

  std::filesystem::path folder_;
  std::map<std::string, SafetensorsFile> files_;
  std::shared_ptr<const MountedModel> mounted_;
  std::shared_ptr<const MappedFile> zeros_;
  std::shared_ptr<const ForeignWeights> foreign_;
  std::shared_ptr<const MergedAdapter> adapter_;
  // The values of the I32 tensors, as many as the longest one has.
  std::shared_ptr<const std::vector<int32_t>> numbers_;
  std::map<std::string, TensorView> tensors_;
  // The bytes of tensors whose rows stand in another order in the file.
  std::vector<std::shared_ptr<const std::vector<std::byte>>> owned_;
  std::vector<std::shared_ptr<const CodedValues>> owned_codes_;
  std::vector<std::shared_ptr<const ForeignFormat>> owned_formats_;
  // The tensors that only the index has, and the files where it puts them.
  std::map<std::string, std::string> absent_;
  bool tied_ = false;
};

}  // namespace neuronmm::io
