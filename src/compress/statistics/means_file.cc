#include "compress/statistics/means_file.h"

#include <algorithm>

#include "io/safetensors.h"
#include "io/safetensors_writer.h"

namespace neuronmm::compress {
namespace {

Shape stored_shape(const Mean& mean) {
  return mean.symmetric ? Shape{mean.shape[0] * (mean.shape[0] + 1) / 2} : mean.shape;
}

// Moves the lower triangle to the front of the matrix's values, where it takes half of the memory.
void pack_triangle(DoubleMatrix& matrix) {
  double* to = matrix.data();
  for (int64_t j = 0; j < matrix.columns(); ++j) {
    to = std::copy(matrix.column(j) + j, matrix.column(j) + matrix.rows(), to);
  }
}

// Moves the packed lower triangle back into place, from the last column to the first, and fills in
// the upper triangle.
void unpack_triangle(DoubleMatrix& matrix) {
  const int64_t size = matrix.rows();
  const double* from = matrix.data() + size * (size + 1) / 2;
  for (int64_t j = size - 1; j >= 0; --j) {
    from -= size - j;
    std::copy_backward(from, from + (size - j), matrix.column(j) + size);
  }
  mirror_lower_triangle(matrix);
}

Status check_tensors(const io::SafetensorsFile& file, const std::filesystem::path& path,
                     std::span<const Mean> means) {
  for (const Mean& mean : means) {
    const auto found = file.tensors().find(mean.name);
    const Shape expected = stored_shape(mean);
    if (found == file.tensors().end() || found->second.dtype != DType::kF64 ||
        found->second.shape != expected) {
      return fail("{}: expected tensor {} F64 {}", path.string(), mean.name,
                  shape_string(expected));
    }
  }
  return {};
}

}  // namespace

Status write_means(const std::filesystem::path& path, std::span<const Mean> means,
                   std::span<DoubleMatrix* const> sums, int64_t tokens, const std::string& source) {
  std::vector<io::TensorSpec> specs;
  for (const Mean& mean : means) specs.push_back({mean.name, DType::kF64, stored_shape(mean)});
  NMM_ASSIGN(auto writer, io::SafetensorsWriter::create_checked(path, specs, {}));
  for (size_t i = 0; i < means.size(); ++i) {
    DoubleMatrix& mean = *sums[i];
    for (int64_t j = 0; j < mean.columns(); ++j) {
      mean.scale_column(j, 1.0 / static_cast<double>(tokens));
    }
    if (!mean.all_finite()) {
      return fail("{} makes NaN or infinity of the calibration text", source);
    }
    if (means[i].symmetric) pack_triangle(mean);
    const int64_t count = means[i].symmetric ? specs[i].shape[0] : mean.size();
    NMM_TRY(writer.append(std::as_bytes(std::span(mean.data(), static_cast<size_t>(count)))));
  }
  return writer.finish();
}

Result<std::vector<DoubleMatrix>> read_means(const std::filesystem::path& path,
                                             std::span<const Mean> means) {
  NMM_ASSIGN(const auto file, io::SafetensorsFile::open(path));
  NMM_TRY(check_tensors(file, path, means));
  std::vector<DoubleMatrix> out;
  for (const Mean& mean : means) {
    const TensorView& tensor = file.tensors().at(mean.name);
    DoubleMatrix& matrix = out.emplace_back(mean.shape[0], mean.shape[1]);
    to_doubles(tensor, 0, tensor.size(), matrix.data());
    if (mean.symmetric) unpack_triangle(matrix);
  }
  return out;
}

Status check_means(const std::filesystem::path& path, std::span<const Mean> means) {
  NMM_ASSIGN(const auto file, io::SafetensorsFile::open_checked(path));
  return check_tensors(file, path, means);
}

}  // namespace neuronmm::compress
