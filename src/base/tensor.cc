#include "base/tensor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/float16.h"

namespace neuronmm {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int64_t size_bytes;
};
constexpr std::array<DTypeInfo, 9> kDTypes = {{{DType::kF64, "F64", 8},
                                               {DType::kF32, "F32", 4},
                                               {DType::kF16, "F16", 2},
                                               {DType::kBF16, "BF16", 2},
                                               {DType::kI64, "I64", 8},
                                               {DType::kI32, "I32", 4},
                                               {DType::kI8, "I8", 1},
                                               {DType::kU8, "U8", 1},
                                               {DType::kF8, "F8_E4M3", 1}}};

// The table is in the order of the enumeration, without kForeign.
const DTypeInfo& info(DType dtype) {
  NMM_CHECK(dtype != DType::kForeign);
  return kDTypes[static_cast<size_t>(dtype)];
}

// Narrows to fp32 by rounding to odd: if anything is cut off, the last bit is set. Rounding the
// result again to 16 bits then gives the value nearest to the fp64 one (Boldo and Melquiond 2008).
float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
  // If the nearest fp32 is further from zero than the value, the fp32 before it is the truncated
  // value. The last bit of the truncated value is then set.
  const bool away_from_zero = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  return std::bit_cast<float>((std::bit_cast<uint32_t>(nearest) - away_from_zero) | 1);
}

// The float dtypes, one struct each: the stored representation, and the conversion both ways.
struct F64 {
  using Bits = double;
  static double widen(Bits bits) { return bits; }
  static Bits narrow(double value) { return value; }
};
struct F32 {
  using Bits = float;
  static double widen(Bits bits) { return bits; }
  static Bits narrow(double value) { return static_cast<float>(value); }
};
struct F16 {
  using Bits = f16;
  static double widen(Bits bits) { return bits.to_float(); }
  static Bits narrow(double value) { return f16::from_float(round_to_odd(value)); }
};
struct BF16 {
  using Bits = bf16;
  static double widen(Bits bits) { return bits.to_float(); }
  static Bits narrow(double value) { return bf16::from_float(round_to_odd(value)); }
};

// Calls `visit` with the format as a type, so that its inner loop is compiled for each dtype.
template <typename Visitor>
void with_float_format(DType dtype, Visitor visit) {
  switch (dtype) {
    case DType::kF64:
      return visit(F64{});
    case DType::kF32:
      return visit(F32{});
    case DType::kF16:
      return visit(F16{});
    case DType::kBF16:
      return visit(BF16{});
    default:
      NMM_CHECK(is_float(dtype));
  }
}

template <typename Out>
void convert(const TensorView& tensor, int64_t first, int64_t count, Out* out) {
  with_float_format(tensor.dtype, [&](auto format) {
    using Format = decltype(format);
    using Bits = typename Format::Bits;
    const std::byte* source = tensor.data + first * static_cast<int64_t>(sizeof(Bits));
    for (int64_t i = 0; i < count; ++i) {
      Bits bits;
      // Tensors in a file need not be aligned.
      std::memcpy(&bits, source + i * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits));
      out[i] = static_cast<Out>(Format::widen(bits));
    }
  });
}

template <typename In>
void append(DType dtype, const In* values, int64_t count, std::vector<std::byte>& out) {
  with_float_format(dtype, [&](auto format) {
    using Format = decltype(format);
    using Bits = typename Format::Bits;
    const size_t start = out.size();
    out.resize(start + static_cast<size_t>(count) * sizeof(Bits));
    for (int64_t i = 0; i < count; ++i) {
      const Bits bits = Format::narrow(values[i]);
      std::memcpy(out.data() + start + static_cast<size_t>(i) * sizeof(Bits), &bits, sizeof(Bits));
    }
  });
}

}  // namespace

int64_t dtype_size_bytes(DType dtype) { return info(dtype).size_bytes; }
std::string_view dtype_name(DType dtype) {
  return dtype == DType::kForeign ? "a foreign format" : info(dtype).name;
}

Result<DType> parse_dtype(std::string_view name) {
  for (const DTypeInfo& entry : kDTypes) {
    if (entry.name == name) return entry.dtype;
  }
  return fail("expected a dtype among F64 F32 F16 BF16 I64 I32 I8 U8 F8_E4M3, found \"{}\"", name);
}

bool is_float(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kF16 ||
         dtype == DType::kBF16 || dtype == DType::kForeign;
}

std::string shape_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

int64_t TensorView::size() const {
  int64_t product = 1;
  for (int64_t extent : shape) product *= extent;
  return product;
}

int64_t TensorView::size_bytes() const {
  return foreign != nullptr ? foreign->size_bytes(shape) : size() * dtype_size_bytes(dtype);
}

std::string_view type_name(const TensorView& tensor) {
  return tensor.foreign != nullptr ? tensor.foreign->name() : dtype_name(tensor.dtype);
}

void to_floats(const TensorView& tensor, int64_t first, int64_t count, float* out) {
  if (tensor.foreign != nullptr) return tensor.foreign->read(tensor, first, count, out);
  convert(tensor, first, count, out);
}
void to_doubles(const TensorView& tensor, int64_t first, int64_t count, double* out) {
  if (tensor.foreign == nullptr) return convert(tensor, first, count, out);
  std::vector<float> floats(static_cast<size_t>(count));
  tensor.foreign->read(tensor, first, count, floats.data());
  std::copy(floats.begin(), floats.end(), out);
}

TensorView without_foreign(const TensorView& tensor, DType dtype, std::vector<std::byte>& storage) {
  if (tensor.foreign == nullptr) return tensor;
  // Rows are read one by one, so that only the result takes memory.
  const int64_t columns = tensor.shape.back(), rows = tensor.size() / columns;
  storage.clear();
  storage.reserve(static_cast<size_t>(tensor.size() * dtype_size_bytes(dtype)));
  std::vector<float> row(static_cast<size_t>(columns));
  for (int64_t i = 0; i < rows; ++i) {
    to_floats(tensor, i * columns, columns, row.data());
    append_rounded(dtype, row.data(), columns, storage);
  }
  return {dtype, tensor.shape, storage.data()};
}
// fp32 values are widened first, which is exact, so that both overloads round in the same code.
void append_rounded(DType dtype, const float* values, int64_t count, std::vector<std::byte>& out) {
  append(dtype, values, count, out);
}
void append_rounded(DType dtype, const double* values, int64_t count, std::vector<std::byte>& out) {
  append(dtype, values, count, out);
}

}  // namespace neuronmm
