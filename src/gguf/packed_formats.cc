#include "gguf/packed_formats.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace neuronmm::gguf {
namespace {

// Assumed: a tenth more than the file leaves another tenth for the vocabulary, the scratch memory
// and the pages of the file that are being read, so that the process stays below 1.2 times the
// file.
constexpr double kLargestRatio = 1.1;
constexpr int64_t kScaleGroup = 128;

constexpr LowBitFormat kFp32 = {.bits = 32}, kBf16 = {.bits = 16};
constexpr LowBitFormat kBlockFormats[] = {
    {.bits = 8}, {.bits = 6}, {.bits = 4, .group = 16}, {.bits = 4, .group = 32}};

double bits_in_file(const io::GgufTypeInfo& type) {
  return 8.0 * static_cast<double>(type.block_bytes) / static_cast<double>(type.block_elements);
}

bool is_block(const io::GgufTypeInfo& type) { return type.block_elements > 1; }

int64_t divided_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

std::string megabytes(int64_t bytes) {
  return fmt::format("{:.0f} MB", static_cast<double>(bytes) / 1e6);
}

std::string format_name(const LowBitFormat& format) {
  return format.bits == 16 ? "bf16" : fmt::format("{} bits", format.bits);
}

std::string listed(const std::vector<std::string>& names) {
  if (names.size() == 1) return names.front();
  const std::vector<std::string> first(names.begin(), names.end() - 1);
  return fmt::format("{} and {}", fmt::join(first, ", "), names.back());
}

int64_t total_bytes(std::span<const PackedTensor> tensors, std::span<const LowBitFormat> formats) {
  int64_t total = 0;
  for (size_t i = 0; i < tensors.size(); ++i) total += packed_bytes(tensors[i], formats[i]);
  return total;
}

}  // namespace

int64_t packed_bytes(const PackedTensor& tensor, const LowBitFormat& format) {
  if (format.bits >= 16) return tensor.rows * tensor.columns * format.bits / 8;
  const int64_t scales = 2 * divided_up(tensor.columns, kScaleGroup);
  const int64_t groups = format.bits == 4 ? divided_up(tensor.columns, format.group) : 0;
  return tensor.rows * (divided_up(tensor.columns * format.bits, 8) + scales + groups);
}

std::vector<LowBitFormat> packed_formats(std::span<const PackedTensor> tensors,
                                         int64_t file_bytes) {
  std::vector<LowBitFormat> formats;
  for (const PackedTensor& tensor : tensors) {
    formats.push_back(is_block(*tensor.type)       ? kBlockFormats[0]
                      : tensor.type->name == "F32" ? kFp32
                                                   : kBf16);
  }
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return bits_in_file(*tensors[i].type); });
  const auto limit = static_cast<int64_t>(kLargestRatio * static_cast<double>(file_bytes));
  int64_t total = total_bytes(tensors, formats);
  for (size_t format = 1; format < std::size(kBlockFormats); ++format) {
    for (const size_t i : order) {
      if (total <= limit) return formats;
      if (!is_block(*tensors[i].type)) continue;
      total +=
          packed_bytes(tensors[i], kBlockFormats[format]) - packed_bytes(tensors[i], formats[i]);
      formats[i] = kBlockFormats[format];
    }
  }
  return formats;
}

std::string conversion_text(std::span<const PackedTensor> tensors,
                            std::span<const LowBitFormat> formats, int64_t file_bytes) {
  // The names of types by what they become, the most bits first.
  std::map<int, std::vector<std::string>, std::greater<>> by_bits;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string name(tensors[i].type->name);
    if (name == "F32" || name == "BF16") continue;
    std::vector<std::string>& names = by_bits[formats[i].bits];
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  std::vector<std::string> parts;
  for (auto& [bits, names] : by_bits) {
    std::ranges::sort(names);
    parts.push_back(fmt::format("{} become{} {}", listed(names), names.size() == 1 ? "s" : "",
                                format_name({.bits = bits})));
  }
  if (parts.empty()) return {};
  return fmt::format("{}; the weights take {} in memory (the file has {})", fmt::join(parts, ", "),
                     megabytes(total_bytes(tensors, formats)), megabytes(file_bytes));
}

}  // namespace neuronmm::gguf
