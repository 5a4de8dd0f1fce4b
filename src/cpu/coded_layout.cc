#include "cpu/coded_layout.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/float16.h"
#include "base/parallel.h"
#include "base/result.h"
#include "cpu/packed_matrix.h"

namespace neuronmm::cpu {
namespace {

using Type = CodedNumbers::Type;

constexpr uint8_t kTableOffset = 128;

// The types that hold all of some numbers exactly. Only fp32 holds NaN.
struct ExactTypes {
  bool constant = true, bytes = true, fp16 = true, bf16 = true, powers_of_two = true;
  float first = 0;

  void add(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    constant = constant && value == first;
    bytes =
        bytes && value >= 0 && value <= 255 && value == static_cast<float>(static_cast<int>(value));
    bf16 = bf16 && (bits & 0xFFFF) == 0;
    fp16 = fp16 && is_fp16(value, bits);
    powers_of_two = powers_of_two && is_power_of_two(bits);
  }
  void add(const ExactTypes& other) {
    constant = constant && other.constant;
    bytes = bytes && other.bytes;
    fp16 = fp16 && other.fp16;
    bf16 = bf16 && other.bf16;
    powers_of_two = powers_of_two && other.powers_of_two;
  }

 private:
  // Normal numbers of fp16 have exponents from -14 to 15 and 10 bits of fraction.
  static bool is_fp16(float value, uint32_t bits) {
    const uint32_t exponent = bits >> 23 & 0xFF;
    if (exponent >= 127 - 14 && exponent <= 127 + 15) return (bits & 0x1FFF) == 0;
    return f16::from_float(value).to_float() == value;
  }
  // The product of such a number and any byte has an exponent of fp32, too.
  static bool is_power_of_two(uint32_t bits) {
    const uint32_t exponent = bits >> 23;  // with the sign
    return (bits & 0x7FFFFF) == 0 && exponent >= 1 && exponent <= 254 - 7;
  }
};

Type type_of_scales(const ExactTypes& exact) {
  return exact.fp16 ? Type::kFp16 : exact.bf16 ? Type::kBf16 : Type::kFp32;
}
Type type_of_offsets(const ExactTypes& exact) {
  return exact.constant ? Type::kConstant
         : exact.bytes  ? Type::kBytes
         : exact.fp16   ? Type::kFp16
         : exact.bf16   ? Type::kBf16
                        : Type::kFp32;
}

int64_t number_bytes(Type type) {
  switch (type) {
    case Type::kConstant:
      return 0;
    case Type::kFp32:
      return 4;
    case Type::kFp16:
    case Type::kBf16:
      return 2;
    case Type::kBytes:
    case Type::kNested:
      return 1;
  }
  return 0;
}

template <typename T>
void put(uint8_t* to, int64_t index, T value) {
  std::memcpy(to + index * static_cast<int64_t>(sizeof value), &value, sizeof value);
}

void put_number(const CodedNumbers& numbers, uint8_t* panel, int64_t index, float value) {
  uint8_t* const to = panel + numbers.first_byte;
  switch (numbers.type) {
    case Type::kFp32:
      return put(to, index, value);
    case Type::kFp16:
      return put(to, index, f16::from_float(value).bits);
    case Type::kBf16:
      return put(to, index, bf16::from_float(value).bits);
    case Type::kBytes:
      return put(to, index, static_cast<uint8_t>(value));
    case Type::kConstant:
    case Type::kNested:
      return;
  }
}

}  // namespace

// Packs one row after the other, in memory that it keeps.
class CodedLayout::Packer {
 public:
  Packer(const CodedLayout& layout, const CodedValues& coded, uint32_t* panel)
      : layout_(layout),
        coded_(coded),
        words_(panel),
        bytes_(reinterpret_cast<uint8_t*>(panel)),
        groups_(static_cast<size_t>(layout.groups_)),
        scales_(groups_),
        offsets_(groups_),
        codes_(std::size(layout.group_of_row_)) {}

  void pack(int64_t row, int64_t column) {
    if (layout_.groups_per_outer_ > 0) {
      pack_factors(row, column);
    } else {
      pack_numbers(row, column);
    }
    coded_.codes(row, 0, coded_.columns(), codes_.data());
    const bool halves = codes_per_byte(layout_.kind_) == 2;
    uint32_t* to = words_ + layout_.header_words_ + 2 * column;
    const int64_t rows = layout_.rows_of_step();
    for (const uint8_t* code = codes_.data(); code < codes_.data() + codes_.size(); code += rows) {
      halves ? pack_step<4>(code, to) : pack_step<8>(code, to);
      to += kStepWords;
    }
  }

 private:
  template <int kBits>
  static void pack_step(const uint8_t* codes, uint32_t* to) {
    uint32_t even = 0, odd = 0;
    for (int i = 0; i < 32 / kBits; ++i) {
      even |= uint32_t{codes[2 * i]} << kBits * i;
      odd |= uint32_t{codes[2 * i + 1]} << kBits * i;
    }
    to[0] = even;
    to[1] = odd;
  }

  void pack_numbers(int64_t row, int64_t column) {
    coded_.grid(row, scales_.data(), offsets_.data());
    for (size_t g = 0; g < groups_; ++g) {
      const int64_t index = static_cast<int64_t>(g) * kPanel + column;
      put_number(layout_.scales_, bytes_, index, scales_[g]);
      put_number(layout_.offsets_, bytes_, index, offsets_[g]);
    }
  }

  void pack_factors(int64_t row, int64_t column) {
    scale_bytes_.resize(groups_);
    offset_bytes_.resize(groups_);
    coded_.factors(row,
                   {scales_.data(), offsets_.data(), scale_bytes_.data(), offset_bytes_.data()});
    pack_nested(layout_.scales_, scales_, scale_bytes_, column);
    if (layout_.offsets_.type == Type::kNested) {
      pack_nested(layout_.offsets_, offsets_, offset_bytes_, column);
    }
  }

  void pack_nested(const CodedNumbers& numbers, const std::vector<float>& outer,
                   const std::vector<int8_t>& factors, int64_t column) {
    const auto per_outer = static_cast<size_t>(layout_.groups_per_outer_);
    for (size_t g = 0; g < groups_; ++g) {
      put(bytes_ + numbers.first_byte, static_cast<int64_t>(g) * kPanel + column, factors[g]);
      if (g % per_outer != 0) continue;
      put(bytes_ + numbers.first_outer_byte, static_cast<int64_t>(g / per_outer) * kPanel + column,
          f16::from_float(outer[g / per_outer]).bits);
    }
  }

  const CodedLayout& layout_;
  const CodedValues& coded_;
  uint32_t* words_;
  uint8_t* bytes_;
  size_t groups_;
  std::vector<float> scales_, offsets_;
  std::vector<int8_t> scale_bytes_, offset_bytes_;
  std::vector<uint8_t> codes_;  // with zeros up to a whole step
};

CodedLayout::CodedLayout(const CodedValues& coded, int64_t first_row, int64_t rows)
    : kind_(coded.kind()),
      adds_minimum_(coded.adds_minimum()),
      groups_(coded.groups()),
      groups_per_outer_(coded.groups_per_outer()) {
  find_groups(coded);
  for (size_t i = 0; i < table_.size(); ++i) {
    table_[i] = static_cast<uint8_t>(coded.table()[i] + kTableOffset);
    bf16_table_[i] = bf16_table_[i + table_.size()] =
        bf16::from_float(static_cast<float>(coded.table()[i])).bits;
  }
  if (groups_per_outer_ > 0) {
    scales_.type = Type::kNested;
    offsets_.type = adds_minimum_ ? Type::kNested : Type::kConstant;
  }
  std::vector<float> scale(static_cast<size_t>(groups_)), offset(scale.size());
  if (rows > 0) coded.grid(first_row, scale.data(), offset.data());
  const float first = offset.empty() ? 0 : offset.front();
  offsets_.constant = first;  // only read if the offsets are one number
  if (groups_per_outer_ == 0) {
    std::vector<std::pair<ExactTypes, ExactTypes>> exact(static_cast<size_t>(num_threads()));
    parallel_for(std::ssize(exact), [&](int64_t i) {
      auto& [scales, offsets] = exact[static_cast<size_t>(i)];
      offsets.first = first;
      std::vector<float> s(scale.size()), o(scale.size());
      for (int64_t row = rows * i / std::ssize(exact); row < rows * (i + 1) / std::ssize(exact);
           ++row) {
        coded.grid(first_row + row, s.data(), o.data());
        for (const float value : s) scales.add(value);
        for (const float value : o) offsets.add(value);
      }
    });
    for (const auto& [scales, offsets] : exact) {
      exact.front().first.add(scales);
      exact.front().second.add(offsets);
    }
    scales_.type = type_of_scales(exact.front().first);
    offsets_.type = type_of_offsets(exact.front().second);
    shifts_table_ = kind_ == CodeKind::kTable4 && exact.front().first.powers_of_two &&
                    std::ranges::all_of(group_of_step_, [](int32_t group) { return group >= 0; });
  }
  if (kind_ == CodeKind::kTable4) {
    offsets_ = {.type = Type::kConstant, .constant = kTableOffset};
  }
  constexpr int64_t kCacheLineWords = 16;
  const int64_t bytes = place_numbers(offsets_, place_numbers(scales_, 0));
  header_words_ = (bytes / 4 + kCacheLineWords - 1) / kCacheLineWords * kCacheLineWords;
}

// Sets where numbers begin, and returns where they end.
int64_t CodedLayout::place_numbers(CodedNumbers& numbers, int64_t first_byte) const {
  numbers.first_byte = first_byte;
  int64_t end = first_byte + groups_ * kPanel * number_bytes(numbers.type);
  if (numbers.type != Type::kNested) return end;
  numbers.first_outer_byte = end;
  const int64_t outer = (groups_ + groups_per_outer_ - 1) / groups_per_outer_;
  return end + outer * kPanel * static_cast<int64_t>(sizeof(uint16_t));
}

void CodedLayout::find_groups(const CodedValues& coded) {
  group_of_row_.assign(coded.group_of_column().begin(), coded.group_of_column().end());
  const auto step = static_cast<size_t>(rows_of_step());
  while (group_of_row_.size() % step != 0) group_of_row_.push_back(group_of_row_.back());
  for (size_t k = 0; k < group_of_row_.size(); k += step) {
    const auto begin = group_of_row_.begin() + static_cast<std::ptrdiff_t>(k);
    const bool one = std::all_of(begin, begin + static_cast<std::ptrdiff_t>(step),
                                 [&](int32_t group) { return group == *begin; });
    group_of_step_.push_back(one ? *begin : -1);
  }
}

void CodedLayout::pack_panel(const CodedValues& coded, int64_t first_row, int64_t rows,
                             uint32_t* panel) const {
  std::fill_n(panel, words_before(std::ssize(group_of_row_)), 0u);
  Packer packer(*this, coded, panel);
  for (int64_t i = 0; i < rows; ++i) packer.pack(first_row + i, i);
}

}  // namespace neuronmm::cpu
