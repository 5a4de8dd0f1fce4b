#pragma once
// A temporary model folder with fp32 weights, in the same folder as the output that is made from
// it. The command `import --bits` writes the floats of a GGUF file there. The commands `compress`
// and `quantize` need it if their model has weights of few bits (--dequantize). Errors: a folder of
// the same name that another program made or another process holds, an output that exists, and a
// disk that is full.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/progress.h"
#include "base/result.h"
#include "io/staging_folder.h"

namespace neuronmm::apps {

// The folder "OUT.floats", which is a locked io::StagingFolder. If a killed run left it behind, it
// is used again. A note beside the floats says what they were made from. It is written after the
// floats and deleted before them, so that half a folder of floats is never used.
//
// One process makes and fills the folder. Call create() before anything is written to model().
class FloatFolder {
 public:
  // Decides on the paths but creates nothing. `name` becomes the last part of model(), which the
  // model card of the output then names as its source.
  FloatFolder(const std::filesystem::path& out, const std::filesystem::path& name);
  FloatFolder(const FloatFolder&) = delete;
  FloatFolder& operator=(const FloatFolder&) = delete;
  // Removes the folder if create() has made it. A notice says if that fails.
  ~FloatFolder();

  // Creates the folder. Fails if `out` exists and `force` is not set, so that this error comes
  // before minutes of work and not after them.
  Status create(bool force);
  // Returns the path of the model folder with the floats.
  const std::filesystem::path& model() const { return model_; }
  // Calls `write`, which makes model(). Does nothing if an earlier run has made it from the same
  // `origin`. An empty origin is never the same.
  Status fill(const std::string& origin, const std::function<Status()>& write);
  // Fills the folder with the floats of the model `quantized` (compress/dequantize.h). Fails if
  // `quantized` has no weights of 8, 6 or 4 bits.
  Status dequantize(const std::filesystem::path& quantized, Progress& progress);
  // Leaves the folder where it is, so that the next run of the same command need not write the
  // floats again.
  void keep() { folder_.reset(); }
  // Removes the folder.
  Status remove();

 private:
  std::filesystem::path note() const;

  std::filesystem::path out_, parent_, model_;
  std::optional<io::StagingFolder> folder_;  // empty unless this object has to remove it
};

// The flags --dequantize and --force.
struct FloatOptions {
  bool dequantize = false;
  bool force = false;  // whether an existing output is replaced
};
inline constexpr const char* kDequantizeHelp = "Accept a model of 8, 6 or 4 bits, with more loss";

// Runs `command` on `model`, or on a folder with its floats if options.dequantize is set. Returns
// what `command` returns, or the error that the floats could not be removed. They are removed
// afterwards, but kept if the command is interrupted. Under a launcher all processes call this
// function. Process 0 writes the floats to a file system that all processes must share. If that
// fails, process 0 returns the error and the others return exit code 1.
Result<int> run_on_floats(
    const std::filesystem::path& model, const std::filesystem::path& out,
    const FloatOptions& options,
    const std::function<Result<int>(const std::filesystem::path& model)>& command);

}  // namespace neuronmm::apps
