#include "compress/factors/narrow_file.h"

#include <cstdlib>
#include <cstring>
#include <span>
#include <system_error>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"

namespace neuronmm::compress {
namespace {

constexpr const char* kLargestMap = "largest_map";

}  // namespace

Status write_narrow_mlp(const std::filesystem::path& path, const NarrowMlp& mlp, DType dtype) {
  std::vector<io::TensorSpec> specs;
  for (const MlpTensor& tensor : mlp.tensors) {
    specs.push_back({tensor.name, tensor.numbers.empty() ? dtype : DType::kI32, tensor.shape()});
  }
  NMM_ASSIGN(auto writer, io::SafetensorsWriter::create_checked(
                              path, specs, {{kLargestMap, fmt::format("{}", mlp.largest_map)}}));
  for (const MlpTensor& tensor : mlp.tensors) {
    NMM_TRY(tensor.numbers.empty() ? writer.append(to_checkpoint(tensor.values, dtype))
                                   : writer.append(std::as_bytes(std::span(tensor.numbers))));
  }
  return writer.finish();
}

std::optional<NarrowMlp> read_narrow_mlp(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  const auto file = io::SafetensorsFile::open_checked(path);
  if (!file.ok() || !file->metadata().contains(kLargestMap)) return std::nullopt;
  NarrowMlp mlp;
  mlp.largest_map = std::strtod(file->metadata().at(kLargestMap).c_str(), nullptr);
  for (const auto& [name, tensor] : file->tensors()) {
    MlpTensor& read = mlp.tensors.emplace_back(MlpTensor{name, {}, {}});
    if (tensor.dtype == DType::kI32) {
      read.numbers.resize(static_cast<size_t>(tensor.size()));
      std::memcpy(read.numbers.data(), tensor.data, read.numbers.size() * sizeof(int32_t));
    } else if (read.is_bias()) {
      read.values = DoubleMatrix(1, tensor.size());
      to_doubles(tensor, 0, tensor.size(), read.values.data());
    } else {
      read.values = to_double_matrix(tensor);
    }
  }
  return mlp;
}

}  // namespace neuronmm::compress
