#pragma once
// A folder of floats beside the output, from which that is made: of a GGUF file before it is
// rounded, or of a folder of few bits before it is compressed or rounded anew.

#include <filesystem>
#include <functional>
#include <string>

#include "base/progress.h"
#include "base/result.h"

namespace neuronmm::apps {

// "OUT.floats", which goes away with the object. What a killed run left is used again; a folder of
// this name that somebody else made is not touched.
class FloatFolder {
 public:
  // The model in it has `name`, which the card of what is made of it gives.
  FloatFolder(const std::filesystem::path& out, const std::filesystem::path& name);
  FloatFolder(const FloatFolder&) = delete;
  FloatFolder& operator=(const FloatFolder&) = delete;
  ~FloatFolder();

  // Refuses, before minutes of work, an `out` that is there, unless `force`.
  Status create(bool force);
  const std::filesystem::path& model() const { return model_; }
  // Has the folder hold the floats of `rounded` (compress/dequantize.h), unless an earlier run has
  // left just those.
  Status dequantize(const std::filesystem::path& rounded, Progress& progress);
  // For the same command to go on with.
  void keep() { ours_ = false; }

 private:
  std::filesystem::path out_, parent_, mark_, model_;
  bool ours_ = false;
};

struct FloatOptions {
  bool dequantize = false;
  bool force = false;  // `out` may be there
};
inline constexpr const char* kDequantizeHelp =
    "take a model of 8, 6 or 4 bits for its floats, which are written beside the output (4 bytes "
    "per weight) and removed at the end. What was lost stays lost: better use the original";

// Runs `command` on `model`, or on its floats if it is to be dequantized; they are kept if it is
// interrupted. Of several processes, which all call it, process 0 writes them where all others must
// see them, too.
Result<int> run_on_floats(
    const std::filesystem::path& model, const std::filesystem::path& out,
    const FloatOptions& options,
    const std::function<Result<int>(const std::filesystem::path& model)>& command);

}  // namespace neuronmm::apps
