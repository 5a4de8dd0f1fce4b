#include "compress/rounding/tensor_rounding.h"

#include "base/parallel.h"
#include "compress/rounding/codes_file.h"
#include "ops/quantize.h"

namespace neuronmm::compress {

Result<ops::Codes> TensorRounding::read(const std::string& tensor) const {
  const TensorView& weight = run_.checkpoint.tensors().at(tensor);
  return read_codes(work_, tensor, run_.format_of(tensor), weight.rows(), weight.columns());
}

bool TensorRounding::finished(const std::string& tensor) const { return read(tensor).ok(); }

DoubleMatrix TensorRounding::weight(const std::string& tensor) const {
  return scaled_matrix(run_.scales, tensor, run_.checkpoint);
}

std::vector<double> TensorRounding::input_factors(const std::string& tensor) const {
  const auto found = run_.scales.find(tensor);
  if (found != run_.scales.end() && !found->second.columns.empty()) return found->second.columns;
  return std::vector<double>(static_cast<size_t>(run_.checkpoint.tensors().at(tensor).columns()),
                             1.0);
}

Status TensorRounding::round(const std::string& tensor, const DoubleMatrix& weight,
                             const RoundingGram& gram) const {
  const auto codes = round_by_gram(weight, gram, run_.format_of(tensor), run_.settings);
  if (codes.ok()) return write_codes(work_, tensor, *codes);
  return fail("{}: {}: {}", run_.checkpoint.folder().string(), tensor, codes.error().message);
}

Status TensorRounding::round_to_nearest(const std::string& tensor,
                                        const DoubleMatrix& weight) const {
  NMM_CHECK(run_.format_of(tensor).bits == 8);
  if (!weight.all_finite()) {
    return fail("{}: {}: expected a finite weight, found NaN or infinity",
                run_.checkpoint.folder().string(), tensor);
  }
  const auto bytes = to_checkpoint(weight, DType::kF32);
  const ops::QuantizedWeight nearest =
      ops::quantize(TensorView{DType::kF32, {weight.rows(), weight.columns()}, bytes.data()});
  ops::Codes codes{nearest.format, nearest.rows, nearest.columns, {}, {}, nearest.scales};
  for (const int8_t byte : nearest.values) codes.q.push_back(static_cast<uint8_t>(byte + 128));
  return write_codes(work_, tensor, codes);
}

Result<DoubleMatrix> TensorRounding::rounded(const std::string& tensor) const {
  NMM_ASSIGN(const ops::Codes codes, read(tensor));
  DoubleMatrix values(codes.rows, codes.columns);
  parallel_for(codes.columns, [&](int64_t j) {
    for (int64_t i = 0; i < codes.rows; ++i) values(i, j) = codes.value(i, j);
  });
  return values;
}

DoubleMatrix divided_inputs(DoubleMatrix gram, const std::vector<double>& s) {
  NMM_CHECK(std::ssize(s) == gram.rows() && gram.rows() == gram.columns());
  parallel_for(gram.columns(), [&](int64_t j) {
    for (int64_t i = 0; i < gram.rows(); ++i) {
      gram(i, j) /= s[static_cast<size_t>(i)] * s[static_cast<size_t>(j)];
    }
  });
  return gram;
}

}  // namespace neuronmm::compress
