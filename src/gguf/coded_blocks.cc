#include "gguf/coded_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/float16.h"
#include "gguf/dequantize.h"
#include "gguf/k_quants.h"
#include "io/mxfp4.h"

namespace neuronmm::gguf {
namespace {

constexpr int64_t kMostElements = 256;  // of a block
constexpr int kGroup = 32, kGroupsOfK = 8, kGroupsOfQ6 = 16;

// The low halves of 16 bytes are the first 16 codes, the high halves are the others.
void halves(const std::byte* bytes, uint8_t* out) {
  for (int i = 0; i < kGroup / 2; ++i) {
    out[i] = byte_at(bytes, i) & 0xF;
    out[kGroup / 2 + i] = byte_at(bytes, i) >> 4;
  }
}
template <int kOffset>
void halves_after(const std::byte* block, uint8_t* out) {
  halves(block + kOffset, out);
}
// Adds the fifth bits of 32 codes, bit i of the little-endian word to code i.
template <int kOffset>
void five_bits_after(const std::byte* block, uint8_t* out) {
  halves(block + kOffset + 4, out);
  for (int i = 0; i < kGroup; ++i) {
    out[i] |= static_cast<uint8_t>((byte_at(block + kOffset, i / 8) >> i % 8 & 1) << 4);
  }
}
void signed_bytes(const std::byte* block, uint8_t* out) {
  for (int i = 0; i < kGroup; ++i) out[i] = byte_at(block + 2, i) ^ 0x80;
}
// Groups 2 j and 2 j + 1 are the low and the high halves of 32 bytes.
void q4_k_codes(const std::byte* block, uint8_t* out) {
  for (int group = 0; group < kGroupsOfK; ++group) {
    const std::byte* const bits = block + 16 + group / 2 * kGroup;
    for (int i = 0; i < kGroup; ++i) {
      *out++ = byte_at(bits, i) >> 4 * (group % 2) & 0xF;
    }
  }
}
void q6_k_codes(const std::byte* block, uint8_t* out) {
  for (int run = 0; run < 8; ++run) {  // as in q6_k()
    const std::byte* const nibbles = block + run / 4 * 64 + run % 2 * kGroup;
    const std::byte* const pairs = block + 128 + run / 4 * kGroup;
    for (int i = 0; i < kGroup; ++i) {
      const int low = byte_at(nibbles, i) >> 4 * (run / 2 % 2) & 0xF;
      *out++ = static_cast<uint8_t>(low | (byte_at(pairs, i) >> 2 * (run % 4) & 3) << 4);
    }
  }
}

// The scale of MXFP4, halved because the table has doubled values, as in mxfp4().
float half_scale(const std::byte* block) {
  const uint32_t exponent = byte_at(block, 0);
  return std::bit_cast<float>(exponent < 2 ? uint32_t{0x00200000} << exponent
                                           : (exponent - 1) << 23);
}

constexpr std::array<int8_t, 16> kNoTable = {};

}  // namespace

// How the weights of a type are computed from codes.
struct CodedBlocks::Type {
  io::GgufTensorType number;
  CodeKind kind;
  float zero;  // of all groups; unless the type has minimums
  bool minimums;
  int64_t groups;  // of a block; more than one have factors
  const std::array<int8_t, 16>& table;
  void (*codes)(const std::byte* block, uint8_t* out);
};

namespace {

using Number = io::GgufTensorType;
constexpr CodedBlocks::Type kTypes[] = {
    {Number::kQ4_0, CodeKind::kInt4, 8, false, 1, kNoTable, halves_after<2>},
    {Number::kQ4_1, CodeKind::kInt4, 0, true, 1, kNoTable, halves_after<4>},
    {Number::kQ5_0, CodeKind::kInt8, 16, false, 1, kNoTable, five_bits_after<2>},
    {Number::kQ5_1, CodeKind::kInt8, 0, true, 1, kNoTable, five_bits_after<4>},
    {Number::kQ8_0, CodeKind::kInt8, 128, false, 1, kNoTable, signed_bytes},
    {Number::kIQ4_NL, CodeKind::kTable4, 0, false, 1, kIq4Levels, halves_after<2>},
    {Number::kMXFP4, CodeKind::kTable4, 0, false, 1, io::kE2M1Doubled, halves_after<1>},
    {Number::kQ4_K, CodeKind::kInt4, 0, true, kGroupsOfK, kNoTable, q4_k_codes},
    {Number::kQ6_K, CodeKind::kInt8, 32, false, kGroupsOfQ6, kNoTable, q6_k_codes}};

}  // namespace

std::unique_ptr<const CodedBlocks> CodedBlocks::make(const BlockMatrix& matrix,
                                                     const LowBitFormat& packed) {
  const auto number = static_cast<Number>(matrix.type->number);
  const auto* const found = std::ranges::find(kTypes, number, &Type::number);
  if (found == std::end(kTypes)) return nullptr;
  return std::unique_ptr<const CodedBlocks>(new CodedBlocks(*found, matrix, packed));
}

CodedBlocks::CodedBlocks(const Type& type, const BlockMatrix& matrix, const LowBitFormat& packed)
    : type_(type),
      matrix_(matrix),
      blocks_(*matrix.type, matrix.head_rows, packed),
      packed_(packed) {
  const int64_t group = matrix.type->block_elements / type.groups;
  group_of_column_.reserve(static_cast<size_t>(matrix.columns));
  for (int64_t k = 0; k < matrix.columns; ++k) {
    group_of_column_.push_back(static_cast<int32_t>(k / group));
  }
}

CodeKind CodedBlocks::kind() const { return type_.kind; }
bool CodedBlocks::adds_minimum() const { return type_.minimums; }
const std::array<int8_t, 16>& CodedBlocks::table() const { return type_.table; }
int64_t CodedBlocks::groups_per_outer() const { return type_.groups > 1 ? type_.groups : 0; }
int64_t CodedBlocks::groups() const {
  return matrix_.columns / matrix_.type->block_elements * type_.groups;
}

void CodedBlocks::read(const TensorView& view, int64_t first, int64_t count, float* out) const {
  const TensorView all = {DType::kForeign, {rows(), columns()}, matrix_.data, &blocks_};
  blocks_.read(all, first_row(view) * columns() + first, count, out);
}

void CodedBlocks::codes(int64_t row, int64_t first, int64_t count, uint8_t* out) const {
  const int64_t size = matrix_.type->block_elements;
  for (int64_t done = 0; done < count;) {
    const int64_t block = (first + done) / size, skipped = (first + done) % size;
    const int64_t here = std::min(count - done, size - skipped);
    std::array<uint8_t, kMostElements> codes;
    type_.codes(row_at(row) + block * matrix_.type->block_bytes, codes.data());
    std::copy_n(codes.begin() + skipped, here, out + done);
    done += here;
  }
}

void CodedBlocks::grid(int64_t row, float* scales, float* zeros) const {
  const auto count = static_cast<size_t>(groups());
  if (type_.groups > 1) {
    std::vector<float> outer_scales(count), outer_minimums(count);
    std::vector<int8_t> scale_bytes(count), minimum_bytes(count);
    factors(row,
            {outer_scales.data(), outer_minimums.data(), scale_bytes.data(), minimum_bytes.data()});
    for (size_t g = 0; g < count; ++g) {
      const size_t outer = g / static_cast<size_t>(type_.groups);
      scales[g] = outer_scales[outer] * static_cast<float>(scale_bytes[g]);
      zeros[g] = type_.minimums ? outer_minimums[outer] * static_cast<float>(minimum_bytes[g])
                                : type_.zero;
    }
    return;
  }
  const std::byte* block = row_at(row);
  const bool powers = type_.number == Number::kMXFP4;
  for (size_t g = 0; g < count; ++g, block += matrix_.type->block_bytes) {
    scales[g] = powers ? half_scale(block) : half_at(block);
    zeros[g] = type_.minimums ? half_at(block + 2) : type_.zero;
  }
}

void CodedBlocks::factors(int64_t row, const GridFactors& out) const {
  const std::byte* block = row_at(row);
  const int64_t blocks = matrix_.columns / matrix_.type->block_elements;
  for (int64_t b = 0; b < blocks; ++b, block += matrix_.type->block_bytes) {
    int8_t* const scales = out.scale_bytes + b * type_.groups;
    int8_t* const minimums = out.minimum_bytes + b * type_.groups;
    if (!type_.minimums) {  // Q6_K
      constexpr int kScales = 192, kOuter = 208;
      out.outer_scales[b] = half_at(block + kOuter);
      std::memcpy(scales, block + kScales, kGroupsOfQ6);
      continue;
    }
    const ScalesAndMins packed(block + 4);
    out.outer_scales[b] = half_at(block);
    out.outer_minimums[b] = -half_at(block + 2);
    std::copy_n(packed.scale, kGroupsOfK, scales);
    std::copy_n(packed.min, kGroupsOfK, minimums);
  }
}

}  // namespace neuronmm::gguf
