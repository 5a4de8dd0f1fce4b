#include "compress/rounding/codes_file.h"

#include <cstring>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "ops/weights.h"

namespace neuronmm::compress {
namespace {

std::vector<io::TensorSpec> codes_specs(ops::LowBitFormat format, int64_t rows, int64_t columns) {
  const auto parts = [&](int64_t each) { return (columns + each - 1) / each; };
  std::vector<io::TensorSpec> specs = {{"q", DType::kU8, {rows, columns}}};
  if (format.bits == 4) specs.push_back({"groups", DType::kU8, {rows, parts(format.group)}});
  specs.push_back({"scales", DType::kBF16, {rows, parts(ops::kQuantGroup)}});
  return specs;
}

template <typename Value>
void copy_values(const TensorView& tensor, std::vector<Value>& values) {
  values.resize(static_cast<size_t>(tensor.size()));
  std::memcpy(values.data(), tensor.data, values.size() * sizeof(Value));
}

}  // namespace

std::filesystem::path codes_path(const std::filesystem::path& work, const std::string& tensor) {
  return work / (tensor + ".codes.safetensors");
}

Status write_codes(const std::filesystem::path& work, const std::string& tensor,
                   const ops::Codes& codes) {
  NMM_ASSIGN(auto writer,
             io::SafetensorsWriter::create_checked(
                 codes_path(work, tensor), codes_specs(codes.format, codes.rows, codes.columns),
                 {{"bits", std::to_string(codes.format.bits)}}));
  NMM_TRY(writer.append(std::as_bytes(std::span(codes.q))));
  if (codes.format.bits == 4) NMM_TRY(writer.append(std::as_bytes(std::span(codes.groups))));
  NMM_TRY(writer.append(std::as_bytes(std::span(codes.scales))));
  return writer.finish();
}

Result<ops::Codes> read_codes(const std::filesystem::path& work, const std::string& tensor,
                              ops::LowBitFormat format, int64_t rows, int64_t columns) {
  const std::filesystem::path path = codes_path(work, tensor);
  NMM_ASSIGN(const auto file, io::SafetensorsFile::open_checked(path));
  const auto bits = file.metadata().find("bits");
  if (bits == file.metadata().end() || bits->second != std::to_string(format.bits)) {
    return fail("{}: expected codes of {} bits", path.string(), format.bits);
  }
  for (const io::TensorSpec& spec : codes_specs(format, rows, columns)) {
    const auto found = file.tensors().find(spec.name);
    if (found == file.tensors().end() || found->second.dtype != spec.dtype ||
        found->second.shape != spec.shape) {
      return fail("{}: expected tensor {} {} {}", path.string(), spec.name, dtype_name(spec.dtype),
                  shape_string(spec.shape));
    }
  }
  ops::Codes codes{format, rows, columns, {}, {}, {}};
  copy_values(file.tensors().at("q"), codes.q);
  if (format.bits == 4) copy_values(file.tensors().at("groups"), codes.groups);
  copy_values(file.tensors().at("scales"), codes.scales);
  return codes;
}

}  // namespace neuronmm::compress
