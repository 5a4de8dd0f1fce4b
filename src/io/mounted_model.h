#pragma once
// Models whose files lie in one file of another program, such as a GGUF file. Readers of model
// folders (Checkpoint, ModelConfig, Tokenizer, ...) take the path of such a file as that of a
// folder: "model.gguf/config.json" is a text that is made of the file's metadata, and the tensors
// are views of the mapped file. No file is written. Programs name the function that opens such
// files with set_mount_opener(), because src/gguf, which has it, uses this folder.

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace neuronmm::io {

// A tokenizer whose vocabulary and merges are not JSON, which would take most of the time and
// memory of opening a model with hundreds of thousands of tokens.
struct MountedTokenizer {
  // Two tokens that become the token `merged`, as ids.
  struct Merge {
    int32_t left, right, merged;
    bool operator==(const Merge&) const = default;
  };
  // The text of tokenizer.json, with an empty "vocab" and no "merges" in its "model".
  std::string json;
  // The vocabulary by id. The texts belong to the model or to `own_texts`.
  std::vector<std::string_view> tokens;
  std::deque<std::string> own_texts;
  // The merges in the order of their ranks. All ids are those of `tokens`.
  std::vector<Merge> merges;
};

// The files and tensors of one model. Several threads may use it at once.
class MountedModel {
 public:
  virtual ~MountedModel() = default;
  // Returns the names of the texts: config.json, tokenizer.json, ...
  virtual std::vector<std::string> texts() const = 0;
  // Returns one of the texts. It may be made at each call.
  virtual Result<std::string> text(std::string_view name) const = 0;
  // Returns what the text tokenizer.json says, and fails if that fails. Must only be called for a
  // model with this text.
  virtual Result<MountedTokenizer> tokenizer() const = 0;
  // The tensors by their names in Hugging Face's folders. The model owns their memory.
  virtual const std::map<std::string, TensorView>& tensors() const = 0;
  // Returns the error of a model whose weights cannot be read, if there is one. Its texts may be
  // readable nevertheless.
  virtual Status weights() const = 0;
  // Returns a sentence that says in which formats weights are packed whose own format no kernel
  // multiplies, and how much memory the packed weights take. Empty if there are none.
  virtual std::string conversion() const = 0;
  // Returns the architecture that the file names, such as "llama". Empty if weights() fails.
  virtual std::string architecture() const = 0;
  // The files of the model: one, or the parts of a split one.
  virtual const std::vector<std::filesystem::path>& files() const = 0;
  virtual void release_pages() const = 0;
};

using MountOpener =
    Result<std::shared_ptr<const MountedModel>> (*)(const std::filesystem::path& file);
// Sets the function that opens GGUF files in this process. Without it they are refused, with the
// command that makes a folder of them.
void set_mount_opener(MountOpener opener);

// Returns the model in a file, or null if the path is no GGUF file. A model is opened once per
// state of its file and then kept. The error is that of the opener.
Result<std::shared_ptr<const MountedModel>> mounted_model(const std::filesystem::path& path);

// Returns the text of a path such as "model.gguf/config.json", and nothing for paths of other files
// and for texts that the model does not have.
Result<std::optional<std::string>> mounted_text(const std::filesystem::path& path);
// Returns whether mounted_text() would return a text. A model that cannot be opened has none.
bool has_mounted_text(const std::filesystem::path& path);

}  // namespace neuronmm::io
