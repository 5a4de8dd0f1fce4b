#include "io/foreign_module.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

namespace neuronmm::io {
namespace {

using Packed = FieldTable::Packed;

constexpr int64_t kAwqFields = 8;  // codes of 4 bits in a word
constexpr uint8_t kSignBit = 0x80;
constexpr const char* kDamageAdvice =
    "download the folder again, or use the original model with float weights";

constexpr const char* kScales = ".scales";
constexpr const char* kZeros = ".qzeros";
constexpr const char* kCodes = ".qweight";
constexpr const char* kPackedCodes = ".weight_packed";
constexpr const char* kZeroPoint = ".weight_zero_point";

std::string described(const TensorView& tensor) {
  return fmt::format("{} {}", dtype_name(tensor.dtype), shape_string(tensor.shape));
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t whole_number_at(const TensorView& tensor, int64_t i) {
  if (tensor.dtype == DType::kI64) {
    int64_t value = 0;
    std::memcpy(&value, tensor.data + i * static_cast<int64_t>(sizeof value), sizeof value);
    return value;
  }
  int32_t value = 0;
  std::memcpy(&value, tensor.data + i * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}

bool is_whole(DType dtype) { return dtype == DType::kI32 || dtype == DType::kI64; }

CodeKind kind_of(int64_t bits) { return bits == 4 ? CodeKind::kInt4 : CodeKind::kInt8; }
int bits_of(CodeKind kind) { return kind == CodeKind::kInt4 ? 4 : 8; }

}  // namespace

GroupRanges::Groups GroupRanges::get(int64_t columns, int64_t group_size) {
  Groups& groups = known_[{columns, group_size}];
  if (groups == nullptr) {
    std::vector<int32_t> of_column(static_cast<size_t>(columns));
    for (int64_t k = 0; k < columns; ++k) {
      of_column[static_cast<size_t>(k)] = static_cast<int32_t>(k / group_size);
    }
    groups = std::make_shared<const std::vector<int32_t>>(std::move(of_column));
  }
  return groups;
}

Result<std::unique_ptr<ForeignMatrix>> ForeignModule::read() {
  matrix_ = std::make_unique<ForeignMatrix>();
  switch (quantization_.method) {
    case ForeignMethod::kGptq:
      NMM_TRY(read_gptq());
      break;
    case ForeignMethod::kAwq:
      NMM_TRY(quantization_.gemv ? read_awq_by_rows() : read_awq());
      break;
    case ForeignMethod::kCompressedTensors:
    case ForeignMethod::kFloat8:
    case ForeignMethod::kMxfp4:  // no modules of its own
      NMM_TRY(tensors_.contains(stem_ + kPackedCodes) ? read_packed() : read_bytes());
      break;
  }
  NMM_TRY(check_scales());
  for (const std::string& name : used_) matrix_->bytes += tensors_.at(name).size_bytes();
  return std::move(matrix_);
}

// The number of zero points in a word shows how many bits codes have.
Status ForeignModule::read_gptq() {
  NMM_TRY(read_transposed_grid());
  const int64_t rows = matrix_->row_count, words = matrix_->zero_table.words.columns();
  const int64_t bits = words * 8 == rows ? 4 : words * 4 == rows ? 8 : 0;
  const int64_t wanted = quantization_.bits;
  if (bits == 0 || (wanted != 0 && bits != wanted)) {
    return wrong(kZeros,
                 fmt::format("[{}, {}] for {} bits", matrix_->group_count,
                             rows * (wanted == 0 ? 4 : wanted) / 32, wanted == 0 ? 4 : wanted),
                 shape_string(matrix_->zero_table.words.shape));
  }
  matrix_->code_kind = kind_of(bits);
  matrix_->zero_table.bits = static_cast<int>(bits);
  if (quantization_.zeros_less_one) {
    matrix_->zero_table.added = bits == 4 ? 0x11111111u : 0x01010101u;
  }
  NMM_ASSIGN(const TensorView codes, need(kCodes, DType::kI32));
  if (codes.columns() != rows) {
    return wrong_shape(kCodes, fmt::format("{} columns, as {}{} has", rows, stem_, kScales), codes);
  }
  matrix_->code_table = {codes, static_cast<int>(bits), Packed::kAlongRows};
  matrix_->codes_transposed = true;
  columns_ = codes.rows() * (32 / bits);
  return read_groups(".g_idx");
}

// Reads scales and zero points with a row per group.
Status ForeignModule::read_transposed_grid() {
  NMM_ASSIGN(const TensorView scales, need_floats(kScales));
  if (scales.shape.size() != 2) return wrong_shape(kScales, "two dimensions", scales);
  NMM_ASSIGN(const TensorView zeros, need(kZeros, DType::kI32));
  if (zeros.rows() != scales.rows()) {
    return wrong_shape(kZeros, fmt::format("{} rows, as {}{} has", scales.rows(), stem_, kScales),
                       zeros);
  }
  matrix_->row_count = scales.columns();
  matrix_->group_count = scales.rows();
  matrix_->scale_table = {scales, 1, scales.columns()};
  matrix_->zero_table = {zeros, 4, Packed::kAlongColumns};
  matrix_->zeros_transposed = true;
  return {};
}

Status ForeignModule::read_awq() {
  NMM_TRY(read_transposed_grid());
  const int64_t words = ceil_div(matrix_->row_count, kAwqFields);
  const TensorView& zeros = matrix_->zero_table.words;
  if (zeros.columns() != words || matrix_->row_count % kAwqFields != 0) {
    return wrong_shape(kZeros, fmt::format("[{}, {}]", matrix_->group_count, words), zeros);
  }
  NMM_ASSIGN(const TensorView codes, need(kCodes, DType::kI32));
  if (codes.columns() != words) {
    return wrong_shape(kCodes, fmt::format("{} columns (version gemm)", words), codes);
  }
  matrix_->code_table = {codes, 4, Packed::kAlongColumns, true};
  matrix_->zero_table.interleaved = true;
  matrix_->codes_transposed = true;
  columns_ = codes.rows();
  return read_ranges();
}

// Scales and zero points of "gemv" have more columns than there are groups.
Status ForeignModule::read_awq_by_rows() {
  NMM_ASSIGN(const TensorView codes, need(kCodes, DType::kI32));
  matrix_->row_count = codes.rows();
  columns_ = codes.columns() * kAwqFields;
  const int64_t size = quantization_.group_size == -1 ? columns_ : quantization_.group_size;
  matrix_->group_count = ceil_div(columns_, size);
  NMM_ASSIGN(const TensorView scales, need_floats(kScales));
  if (scales.shape.size() != 2 || scales.rows() != codes.rows() ||
      scales.columns() < matrix_->group_count) {
    return wrong_shape(kScales, fmt::format("[{}, {} or more]", codes.rows(), matrix_->group_count),
                       scales);
  }
  NMM_ASSIGN(const TensorView zeros, need(kZeros, DType::kI32));
  if (zeros.rows() != codes.rows() || zeros.columns() * kAwqFields < matrix_->group_count) {
    return wrong_shape(
        kZeros,
        fmt::format("[{}, {} or more]", codes.rows(), ceil_div(matrix_->group_count, kAwqFields)),
        zeros);
  }
  matrix_->code_table = {codes, 4, Packed::kAlongColumns};
  matrix_->zero_table = {zeros, 4, Packed::kAlongColumns};
  matrix_->scale_table = {scales, scales.columns(), 1};
  return use_ranges(size);
}

Status ForeignModule::read_packed() {
  NMM_ASSIGN(const TensorView codes, need(kPackedCodes, DType::kI32));
  constexpr const char* kShape = ".weight_shape";
  const TensorView* const shape = find(kShape);
  if (shape == nullptr || !is_whole(shape->dtype) || shape->shape != Shape{2}) {
    return wrong(kShape, "I64 [2], the rows and columns of the weight",
                 shape == nullptr ? "none" : described(*shape));
  }
  const int64_t rows = whole_number_at(*shape, 0);
  columns_ = whole_number_at(*shape, 1);
  const int64_t words = codes.columns();
  // More columns than the words have bits would overflow below.
  const bool plausible = columns_ > 0 && columns_ <= words * 32;
  const int64_t bits = !plausible                       ? 0
                       : ceil_div(columns_, 8) == words ? 4
                       : ceil_div(columns_, 4) == words ? 8
                                                        : 0;
  if (rows != codes.rows() || bits == 0) {
    return wrong(kPackedCodes,
                 fmt::format("the words of 4 or 8 bits for a weight [{}, {}]", rows, columns_),
                 described(codes));
  }
  matrix_->row_count = rows;
  matrix_->code_kind = kind_of(bits);
  matrix_->code_table = {codes, static_cast<int>(bits), Packed::kAlongColumns};
  NMM_TRY(read_scale());
  return read_zeros();
}

Status ForeignModule::read_bytes() {
  constexpr const char* kWeight = ".weight";
  const TensorView* const codes = find(kWeight);
  if (codes == nullptr || codes->shape.size() != 2 || codes->size() == 0) {
    return wrong(kWeight, "a matrix of I8 or F8_E4M3",
                 codes == nullptr ? "none" : described(*codes));
  }
  const bool floats = codes->dtype == DType::kF8;
  if (!floats && quantization_.method == ForeignMethod::kFloat8) {
    return wrong(kWeight, "F8_E4M3", described(*codes));
  }
  matrix_->row_count = codes->rows();
  columns_ = codes->columns();
  matrix_->code_kind = floats ? CodeKind::kFloat8 : CodeKind::kInt8;
  matrix_->code_table = {*codes, 8, Packed::kBytes};
  matrix_->code_table.flipped = floats ? 0 : kSignBit;
  NMM_TRY(read_scale());
  if (!floats) return read_zeros();
  find(kZeroPoint);  // symmetric, so that it would be zeros
  return {};
}

// One scale for the tensor, for each row, for each group of a row, or for each block.
Status ForeignModule::read_scale() {
  constexpr const char* kInverse = ".weight_scale_inv";
  const bool of_blocks =
      quantization_.method == ForeignMethod::kFloat8 && quantization_.block_rows > 0;
  const char* const ending =
      of_blocks || tensors_.contains(stem_ + kInverse) ? kInverse : ".weight_scale";
  NMM_ASSIGN(const TensorView scale, need_floats(ending));
  const Shape& shape = scale.shape;
  const int64_t rows = matrix_->row_count;
  const int64_t first = shape.empty() ? 1 : shape[0], second = shape.size() < 2 ? 1 : shape[1];
  const int64_t block_rows = quantization_.block_rows, block_columns = quantization_.block_columns;
  const bool flat = shape.size() <= 2 && second > 0;
  matrix_->group_count = second;
  if (block_rows > 0 &&
      shape == Shape{ceil_div(rows, block_rows), ceil_div(columns_, block_columns)}) {
    matrix_->scale_table = {scale, second, 1, block_rows};
    return use_ranges(block_columns);
  }
  const bool one = first == 1 && second == 1 && (quantization_.per_tensor || rows == 1);
  if (!flat || of_blocks || !(one || (first == rows && !shape.empty()))) {
    return wrong_shape(ending,
                       of_blocks ? fmt::format("[{}, {}]", ceil_div(rows, block_rows),
                                               ceil_div(columns_, block_columns))
                                 : fmt::format("[{}, 1] or [{}, groups]{}", rows, rows,
                                               quantization_.per_tensor ? ", or one scale" : ""),
                       scale);
  }
  matrix_->scale_table = {scale, one ? 0 : second, 1};
  return read_groups(".weight_g_idx");
}

Status ForeignModule::read_zeros() {
  const int bits = bits_of(matrix_->code_kind);
  const float middle = bits == 4 ? 8 : 128;
  const TensorView* const zeros = find(kZeroPoint);
  matrix_->zero_offset = middle;
  if (zeros == nullptr) {
    if (!quantization_.all_have_zeros) return {};
    return wrong(kZeroPoint, "zero points, because config.json has \"symmetric\": false", "none");
  }
  if (zeros->dtype == DType::kI32) return read_zero_words(*zeros);
  const int64_t groups = matrix_->group_count;
  const Shape& shape = zeros->shape;
  const bool matches = zeros->size() == matrix_->row_count * groups && !shape.empty() &&
                       shape[0] == matrix_->row_count;
  const bool one = zeros->size() == 1 && matrix_->scale_table.values.size() == 1;
  if (zeros->dtype != DType::kI8 || !(matches || one)) {
    return wrong_shape(kZeroPoint, fmt::format("I8 [{}, {}]", matrix_->row_count, groups), *zeros);
  }
  if (!matches) {
    matrix_->zero_offset += static_cast<float>(static_cast<int8_t>(zeros->data[0]));
    return {};
  }
  matrix_->zero_table = {
      {DType::kI8, {matrix_->row_count, groups}, zeros->data}, 8, Packed::kBytes};
  matrix_->zero_table.flipped = kSignBit;
  matrix_->zero_offset = middle - kSignBit;
  return {};
}

// Packed zero points are stored plus the middle of the codes, which they are zero points of.
Status ForeignModule::read_zero_words(const TensorView& zeros) {
  const int bits = bits_of(matrix_->code_kind);
  const Shape expected = {ceil_div(matrix_->row_count, 32 / bits), matrix_->group_count};
  if (zeros.shape != expected) return wrong_shape(kZeroPoint, shape_string(expected), zeros);
  matrix_->zero_table = {zeros, bits, Packed::kAlongRows};
  matrix_->zero_offset = 0;
  return {};
}

Status ForeignModule::read_groups(const char* index_ending) {
  const TensorView* const index = find(index_ending);
  if (index == nullptr) return read_ranges();
  return read_group_index(stem_ + index_ending, *index);
}

Status ForeignModule::read_ranges() {
  const int64_t groups = matrix_->group_count;
  int64_t size = quantization_.group_size;
  if (size == -1) size = columns_;
  // The config does not say, and modules may differ.
  if (size == 0 && groups > 0 && columns_ % groups == 0) size = columns_ / groups;
  if (size <= 0 || ceil_div(columns_, size) != groups) {
    return fail("{}: module {:?}: expected {} columns in groups of {} ({}), found {} groups; {}",
                folder_, stem_, columns_, size > 0 ? fmt::format("{}", size) : "equal size",
                quantization_.source, groups, kDamageAdvice);
  }
  return use_ranges(size);
}

// The groups of all columns are kept in memory, so a file must not make them many with few bytes.
Status ForeignModule::use_ranges(int64_t size) {
  constexpr int64_t kMostColumns = int64_t{1} << 22;  // the limit of config.json (model_config.cc)
  if (columns_ > kMostColumns) {
    return fail("{}: module {:?}: expected at most {} columns, found {}; {}", folder_, stem_,
                kMostColumns, columns_, kDamageAdvice);
  }
  matrix_->group_of = ranges_.get(columns_, size);
  return {};
}

// compressed-tensors stores -1 for every column if columns are in order.
Status ForeignModule::read_group_index(const std::string& name, const TensorView& index) {
  const auto refuse = [&](const std::string& found) {
    return fail("{}: tensor {:?}: expected I32 [{}] of groups below {}, found {}; {}", folder_,
                name, columns_, matrix_->group_count, found, kDamageAdvice);
  };
  if (!is_whole(index.dtype) || index.shape != Shape{columns_}) return refuse(described(index));
  if (quantization_.method == ForeignMethod::kCompressedTensors && columns_ > 0 &&
      whole_number_at(index, 0) == -1) {
    return read_ranges();
  }
  std::vector<int32_t> groups(static_cast<size_t>(columns_));
  for (int64_t k = 0; k < columns_; ++k) {
    const int64_t group = whole_number_at(index, k);
    if (group < 0 || group >= matrix_->group_count) {
      return refuse(fmt::format("{} at column {}", group, k));
    }
    groups[static_cast<size_t>(k)] = static_cast<int32_t>(group);
  }
  matrix_->group_of = std::make_shared<const std::vector<int32_t>>(std::move(groups));
  return {};
}

// A single scale that is not finite would make wrong text without any other sign.
Status ForeignModule::check_scales() const {
  const TensorView& scales = matrix_->scale_table.values;
  std::array<float, 1024> values;
  for (int64_t first = 0; first < scales.size(); first += std::ssize(values)) {
    const int64_t count = std::min<int64_t>(std::ssize(values), scales.size() - first);
    to_floats(scales, first, count, values.data());
    const float* const end = values.data() + count;
    const float* const bad = std::find_if(std::as_const(values).data(), end,
                                          [](float scale) { return !std::isfinite(scale); });
    if (bad == end) continue;
    return fail("{}: module {:?}: expected finite scales, found {} in element {}; {}", folder_,
                stem_, *bad, first + (bad - values.data()), kDamageAdvice);
  }
  return {};
}

const TensorView* ForeignModule::find(const char* ending) {
  const auto found = tensors_.find(stem_ + ending);
  if (found == tensors_.end()) return nullptr;
  used_.insert(found->first);
  return &found->second;
}

Result<TensorView> ForeignModule::need(const char* ending, DType dtype) {
  const TensorView* const found = find(ending);
  const std::string expected = fmt::format("{} of two dimensions", dtype_name(dtype));
  if (found == nullptr) return wrong(ending, expected, "none");
  if (found->dtype != dtype || found->shape.size() != 2 || found->size() == 0) {
    return wrong(ending, expected, described(*found));
  }
  return *found;
}

Result<TensorView> ForeignModule::need_floats(const char* ending) {
  const TensorView* const found = find(ending);
  const std::string expected = "scales of a float dtype";
  if (found == nullptr) return wrong(ending, expected, "none");
  if (!is_float(found->dtype) || found->size() == 0) {
    return wrong(ending, expected, described(*found));
  }
  return *found;
}

Error ForeignModule::wrong(const char* ending, const std::string& expected,
                           const std::string& found) const {
  return fail("{}: tensor {:?} ({} in {}): expected {}, found {}; {}", folder_, stem_ + ending,
              method_name(quantization_.method), quantization_.source, expected, found,
              kDamageAdvice);
}

Error ForeignModule::wrong_shape(const char* ending, const std::string& expected,
                                 const TensorView& found) const {
  return wrong(ending, expected, described(found));
}

}  // namespace neuronmm::io
