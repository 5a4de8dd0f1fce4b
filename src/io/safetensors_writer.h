#pragma once
// Writing the safetensors format (io/safetensors.h).

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

struct TensorSpec {
  std::string name;
  DType dtype;
  Shape shape;
};

// Writes one file in bounded memory: all specs first, then each tensor's bytes in the order of the
// specs. The file appears under its name only with finish() (io/atomic_file.h).
class SafetensorsWriter {
 public:
  static Result<SafetensorsWriter> create(const std::filesystem::path& path,
                                          const std::vector<TensorSpec>& specs,
                                          const std::map<std::string, std::string>& metadata = {});
  // The same with a checksum at the end, for SafetensorsFile::open_checked.
  static Result<SafetensorsWriter> create_checked(
      const std::filesystem::path& path, std::vector<TensorSpec> specs,
      const std::map<std::string, std::string>& metadata = {});
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;
  ~SafetensorsWriter();

  // The next bytes of the file; a tensor may come in several pieces. Full disks and write errors
  // are reported here.
  Status append(std::span<const std::byte> bytes);
  // Checks that exactly the bytes of all specs came, syncs, renames.
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
