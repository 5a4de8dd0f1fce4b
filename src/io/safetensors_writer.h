#pragma once
// Writes the safetensors format (io/safetensors.h). Commands that write models use it, as well as
// runs that save intermediate results.

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace neuronmm::io {

// The name, dtype and shape of a tensor that will be written.
struct TensorSpec {
  std::string name;
  DType dtype;
  Shape shape;
};

// Writes one file in bounded memory. All specs come first, and then the bytes of each tensor in the
// order of the specs. The file appears under its name only with finish() (io/atomic_file.h).
class SafetensorsWriter {
 public:
  static Result<SafetensorsWriter> create(const std::filesystem::path& path,
                                          const std::vector<TensorSpec>& specs,
                                          const std::map<std::string, std::string>& metadata = {});
  // Creates a file with a checksum at its end, for SafetensorsFile::open_checked.
  static Result<SafetensorsWriter> create_checked(
      const std::filesystem::path& path, std::vector<TensorSpec> specs,
      const std::map<std::string, std::string>& metadata = {});
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;
  ~SafetensorsWriter();

  // Appends the next bytes of the file. A tensor may come in several pieces. Full disks and write
  // errors are reported here.
  Status append(std::span<const std::byte> bytes);
  // Checks that exactly the bytes of all specs were appended, and puts the file in place.
  Status finish();

 private:
  SafetensorsWriter();
  static Result<SafetensorsWriter> begin(const std::filesystem::path& path,
                                         const std::vector<TensorSpec>& specs,
                                         const std::map<std::string, std::string>& metadata,
                                         bool checked);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace neuronmm::io
