#include "model/random_rows.h"

#include <span>

namespace neuronmm::model {
namespace {

// Rows that a matrix is made of. Assumed: enough that a router chooses all experts, and few enough
// that rounding them takes no time.
constexpr int64_t kDistinctRows = 256;

uint64_t scrambled(uint64_t z) { return split_mix(z + kSplitMixStep); }

template <typename T>
void append_row(const std::vector<T>& all, int64_t row, std::vector<std::byte>& out) {
  const size_t length = all.size() / static_cast<size_t>(kDistinctRows);
  const auto bytes =
      std::as_bytes(std::span(all).subspan(static_cast<size_t>(row) * length, length));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace

const ops::QuantizedWeight& RandomRows::rows_of(int64_t columns, const LowBitFormat& format) {
  const auto [found, is_new] = rows_.try_emplace({columns, format.bits, format.group});
  if (!is_new) return found->second;
  std::vector<float> values(static_cast<size_t>(kDistinctRows * columns));
  fill_(scrambled(static_cast<uint64_t>(columns)), std::ssize(values), values.data());
  const TensorView view = {
      DType::kF32, {kDistinctRows, columns}, std::as_bytes(std::span(values)).data()};
  return found->second = ops::quantize(view, format);
}

void RandomRows::append(uint64_t key, int64_t first, int64_t count, int64_t columns,
                        const LowBitFormat& format, StoredPart part, std::vector<std::byte>& out) {
  const ops::QuantizedWeight& rows = rows_of(columns, format);
  for (int64_t i = first; i < first + count; ++i) {
    const auto row = static_cast<int64_t>(scrambled(key + static_cast<uint64_t>(i)) %
                                          static_cast<uint64_t>(kDistinctRows));
    switch (part) {
      case StoredPart::kValues:
        append_row(rows.values, row, out);
        break;
      case StoredPart::kScales:
        append_row(rows.scales, row, out);
        break;
      case StoredPart::kGroups:
        append_row(rows.multipliers, row, out);
        break;
    }
  }
}

}  // namespace neuronmm::model
