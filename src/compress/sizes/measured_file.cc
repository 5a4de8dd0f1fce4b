#include "compress/sizes/measured_file.h"

#include <span>
#include <system_error>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"

namespace neuronmm::compress {
namespace {

constexpr const char* kMeasured = "measured";

}  // namespace

Status save_measured(const std::filesystem::path& path, double value) {
  NMM_ASSIGN(auto writer,
             io::SafetensorsWriter::create_checked(path, {{kMeasured, DType::kF64, {1}}}, {}));
  NMM_TRY(writer.append(std::as_bytes(std::span(&value, 1))));
  return writer.finish();
}

std::optional<double> read_measured(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  const auto file = io::SafetensorsFile::open_checked(path);
  if (!file.ok()) return std::nullopt;
  const auto found = file->tensors().find(kMeasured);
  if (found == file->tensors().end() || found->second.dtype != DType::kF64 ||
      found->second.shape != Shape{1}) {
    return std::nullopt;
  }
  double value = 0.0;
  to_doubles(found->second, 0, 1, &value);
  return value;
}

}  // namespace neuronmm::compress
