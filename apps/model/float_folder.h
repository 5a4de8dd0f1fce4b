#pragma once
// A temporary model folder with fp32 weights, in the same folder as the output that is made from
// it. The command `import --bits` writes the floats of a GGUF file there. The commands `compress`
// and `quantize` need it if their model has weights of few bits (--dequantize). Errors: a folder of
// the same name that another program made, an output that exists, and a disk that is full.

#include <filesystem>
#include <functional>
#include <string>

#include "base/progress.h"
#include "base/result.h"

namespace neuronmm::apps {

// The folder "OUT.floats". Once create() has made it, the destructor removes it. If a killed run
// left the folder behind, it is used again. A folder of this name that another program made is not
// touched; create() then fails.
//
// One process makes and fills the folder. Call create() before anything is written to model().
class FloatFolder {
 public:
  // Decides on the paths but creates nothing. `name` becomes the last part of model(), which the
  // model card of the output then names as its source.
  FloatFolder(const std::filesystem::path& out, const std::filesystem::path& name);
  FloatFolder(const FloatFolder&) = delete;
  FloatFolder& operator=(const FloatFolder&) = delete;
  ~FloatFolder();

  // Creates the folder. Fails if `out` exists and `force` is not set, so that this error comes
  // before minutes of work and not after them.
  Status create(bool force);
  // Returns the path of the model folder with the floats.
  const std::filesystem::path& model() const { return model_; }
  // Writes the floats of the model `quantized` to model() (compress/dequantize.h). Nothing is
  // written if an earlier run has left the floats of the same files there. Fails if `quantized` has
  // no weights of 8, 6 or 4 bits.
  Status dequantize(const std::filesystem::path& quantized, Progress& progress);
  // Lets the destructor leave the folder where it is, so that the next run of the same command need
  // not write the floats again.
  void keep() { owned_ = false; }

 private:
  std::filesystem::path out_, parent_, marker_, model_;
  bool owned_ = false;
};

// The flags --dequantize and --force.
struct FloatOptions {
  bool dequantize = false;
  bool force = false;  // whether an existing output is replaced
};
inline constexpr const char* kDequantizeHelp = "Accept a model of 8, 6 or 4 bits, with more loss";

// Runs `command` on `model`, or on a folder with its floats if options.dequantize is set. Returns
// what `command` returns. The floats are removed afterwards, but kept if the command is
// interrupted. Under a launcher all processes call this function. Process 0 writes the floats to a
// file system that all processes must share. If that fails, process 0 returns the error and the
// others return exit code 1.
Result<int> run_on_floats(
    const std::filesystem::path& model, const std::filesystem::path& out,
    const FloatOptions& options,
    const std::function<Result<int>(const std::filesystem::path& model)>& command);

}  // namespace neuronmm::apps
