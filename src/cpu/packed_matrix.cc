#include "cpu/packed_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/float16.h"
#include "base/parallel.h"
#include "cpu/packed_rows.h"
#include "ops/low_bit.h"
#include "ops/quantize.h"
#include "ops/round_to_bytes.h"

namespace neuronmm::cpu {
namespace {

// The number of elements of one checkpoint row that are moved together. 32 columns x 64 x 4 bytes
// of the panel stay in the first-level cache while they are written column by column.
constexpr int64_t kChunk = 64;

// Calls visit(panel, column in panel, first k, count) for all of W, `chunk` elements of a column at
// a time, with the panels in parallel. The checkpoint's rows are W's columns: each is read along
// its row and written down a column of a panel.
template <typename Visit>
void for_each_chunk(int64_t k, int64_t n, int64_t chunk, const Visit& visit) {
  parallel_for((n + kPanel - 1) / kPanel, [&](int64_t panel) {
    const int64_t columns = std::min(kPanel, n - panel * kPanel);
    for (int64_t first = 0; first < k; first += chunk) {
      for (int64_t column = 0; column < columns; ++column) {
        visit(panel, column, first, std::min(chunk, k - first));
      }
    }
  });
}

// Returns the format in which a weight is packed. Its bits are 32 for fp32 and 16 for bf16.
LowBitFormat format_of(const ops::WeightView& w_t, ForeignWeights foreign) {
  if (w_t.foreign != nullptr && foreign == ForeignWeights::kNearest)
    return w_t.foreign->packed_format();
  if (w_t.quantized()) return w_t.format;
  return {.bits = w_t.dtype == DType::kBF16 ? 16 : 32};
}

bool keeps_codes(const ops::WeightView& w_t, ForeignWeights foreign) {
  const CodedValues* const coded = coded_values(w_t);
  if (coded == nullptr) return false;
  return foreign == ForeignWeights::kExact || coded->packed_format().bits == 32;
}

WeightType type_of(const LowBitFormat& format) {
  switch (format.bits) {
    case 32:
      return WeightType::kFp32;
    case 16:
      return WeightType::kBf16;
    case 8:
      return WeightType::kInt8;
    case 6:
      return WeightType::kInt6;
    default:
      return WeightType::kInt4;
  }
}

// Writes the scale of a column to its half of a word. Columns c and c + kHalfPanel share a word,
// and the first is written before the second, which must keep it.
void pack_scale(bf16 scale, int64_t column, uint32_t* scales) {
  const uint32_t bits = scale.bits;
  uint32_t& pair = scales[column % kHalfPanel];
  pair = column < kHalfPanel ? bits : pair | bits << 16;
}

// Writes the scale of a row and group of w_t.
void pack_scale(const ops::WeightView& w_t, int64_t row, int64_t group, uint32_t* scales) {
  float scale = 0;
  to_floats(w_t.scales, row * w_t.scales.columns() + group, 1, &scale);
  pack_scale(bf16::from_float(scale), row % kPanel, scales);
}

// The words of a group of a panel of int8, and what is added to each of its bytes, which is 128.
constexpr int64_t kInt8GroupWords = kHalfPanel + kQuantGroup / kWordBytes * kPanel;
constexpr uint32_t kInt8Offsets = 0x80808080;

// The elements of a row that are rounded and packed before those of the next row. Assumed: their
// words in a panel take 17 KB, and the largest blocks of GGUF have half as many elements.
constexpr int64_t kRoundedColumns = 4 * kQuantGroup;

// Writes the bytes of a column to its group of a panel. Less than a word is filled with zeros.
void pack_bytes(const unsigned char* bytes, int64_t count, int64_t column, uint32_t* group) {
  uint32_t* to = group + kHalfPanel + column;
  const auto pack_word = [&](int64_t i, size_t size) {
    uint32_t word = 0;
    std::memcpy(&word, bytes + i, size);
    *to = word ^ kInt8Offsets;
    to += kPanel;
  };
  int64_t i = 0;
  for (; i + kWordBytes <= count; i += kWordBytes) pack_word(i, kWordBytes);
  if (i < count) pack_word(i, static_cast<size_t>(count - i));
}

// A column's codes of a group in their stored form, with zeros after the last.
template <int kBits>
struct StoredGroup {
  static constexpr int64_t kPerByte = 8 / kBits;

  StoredGroup(const uint8_t* from, int64_t count) {
    if (count == kQuantGroup) {  // almost always; the number of bytes is a constant
      std::memcpy(bytes.data(), from, bytes.size());
      return;
    }
    bytes = {};
    std::memcpy(bytes.data(), from, static_cast<size_t>((count + kPerByte - 1) / kPerByte));
    if (count % kPerByte != 0) {
      bytes[static_cast<size_t>(count / kPerByte)] &=
          static_cast<uint8_t>((1 << count % kPerByte * kBits) - 1);
    }
  }
  // Returns the codes of LowBitLayout::kRows rows.
  uint32_t of_rows(int64_t i) const {
    constexpr size_t kBytes = LowBitLayout::kRows / kPerByte;
    uint32_t codes = 0;
    std::memcpy(&codes, bytes.data() + static_cast<size_t>(i) * kBytes, kBytes);
    return codes;
  }

  std::array<uint8_t, kQuantGroup / kPerByte> bytes;
};

// Writes the codes of the row's column, and of the column kHalfPanel after it if there is one, into
// the words of a group's lines that the two share.
void pack_codes(const ops::WeightView& w_t, int64_t row, int64_t first, int64_t count,
                int64_t lines_words, uint32_t* word) {
  const int64_t k = w_t.columns(), row_bytes = ops::stored_row_bytes(w_t.format, k);
  const auto* const from = reinterpret_cast<const uint8_t*>(w_t.data) + row * row_bytes;
  const int64_t second = row + kHalfPanel < w_t.rows() ? count : 0;
  const auto* const from_second = second > 0 ? from + kHalfPanel * row_bytes : from;
  const StoredGroup<4> low(from + first / 2, count), low_second(from_second + first / 2, second);
  for (int64_t i = 0; i * LowBitLayout::kRows < count; ++i) {
    const uint64_t bytes =
        ops::bytes_of_nibbles(low.of_rows(i)) | ops::bytes_of_nibbles(low_second.of_rows(i)) << 4;
    word[i * lines_words] = static_cast<uint32_t>(bytes);
    word[i * lines_words + kHalfPanel] = static_cast<uint32_t>(bytes >> 32);
  }
  if (w_t.format.bits == 4) return;
  const int64_t high = (k + 1) / 2 + first / 4;
  const StoredGroup<2> pairs(from + high, count), pairs_second(from_second + high, second);
  word += 2 * kHalfPanel;
  for (int64_t i = 0; i * LowBitLayout::kRows < count; ++i) {
    const auto both = [&](const StoredGroup<2>& of) {
      return ops::bytes_of_pairs(static_cast<uint16_t>(of.of_rows(i)));
    };
    const uint64_t bytes = both(pairs) | both(pairs_second) << 2;
    word[i * lines_words] = static_cast<uint32_t>(bytes | bytes >> 28);
  }
}

}  // namespace

// The number of words after the last panel that may be read. Packed activations are zeros up to a
// multiple of 32 columns, or 64 for AMX's tiles. The weights they are multiplied with there do not
// matter, but they are read: up to 15 words of each column of the last panel.
constexpr int64_t kPanelPadding = (2 * kPieceWords - 1) * kPanel;

// The type follows the checkpoint, so packing rounds only weights in foreign formats. Codes are
// kept.
PackedMatrix::PackedMatrix(const ops::WeightView& w_t, ForeignWeights foreign, Arena* arena) {
  set_form(w_t, foreign);
  if (type_ == WeightType::kCoded) {
    pack_coded(w_t, arena);
    copy_to_domains();
    return;
  }
  allocate(arena);
  if (w_t.foreign != nullptr)
    pack_foreign(w_t, format_of(w_t, foreign));
  else
    pack(w_t, 0);
  copy_to_domains();
}

PackedMatrix::PackedMatrix(int64_t k, int64_t n, WeightType type, Buffer<uint32_t> storage)
    : k_(k), n_(n), type_(type), words_(std::move(storage)) {
  NMM_CHECK(type == WeightType::kFp32 || type == WeightType::kBf16);
  allocate(nullptr);
}

int64_t PackedMatrix::storage_words(int64_t k, int64_t n, WeightType type) {
  const int64_t rows = type == WeightType::kBf16 ? bf16_words(k) : k;
  return (n + kPanel - 1) / kPanel * kPanel * rows + kPanelPadding;
}

void PackedMatrix::set_form(const ops::WeightView& w_t, ForeignWeights foreign) {
  k_ = w_t.columns();
  n_ = w_t.rows();
  type_ = keeps_codes(w_t, foreign) ? WeightType::kCoded : type_of(format_of(w_t, foreign));
  multiplier_rows_ = type_ == WeightType::kInt4 ? format_of(w_t, foreign).group : 0;
}

int64_t PackedMatrix::expected_bytes(const ops::WeightView& w_t, ForeignWeights foreign) {
  PackedMatrix matrix;
  matrix.set_form(w_t, foreign);
  if (matrix.type_ == WeightType::kCoded) return w_t.stored_bytes();
  return matrix.allocated_words() * kWordBytes;
}

void PackedMatrix::pack(const ops::WeightView& rows, int64_t first) {
  switch (type_) {
    case WeightType::kFp32:
      return pack_fp32(rows, first);
    case WeightType::kBf16:
      return pack_bf16(rows, first);
    case WeightType::kInt8:
      return pack_int8(rows, first);
    case WeightType::kInt6:
    case WeightType::kInt4:
      return pack_low_bit(rows, first);
    case WeightType::kCoded:
      break;  // pack_coded packs all rows
  }
}

// Converts some rows after the other to a format of ours and packs them. Only these rows are in
// memory in addition to the panels.
void PackedMatrix::pack_foreign(const TensorView& w_t, const LowBitFormat& format) {
  if (type_ == WeightType::kInt8) return pack_rounded_to_int8(w_t);
  constexpr int64_t kElements = int64_t{1} << 20;  // assumed: keeps all threads busy, fits caches
  const int64_t panels = std::max<int64_t>(1, kElements / (k_ * kPanel));
  const int64_t step = panels * kPanel;
  std::vector<float> values;
  std::vector<std::byte> bytes;
  for (int64_t first = 0; first < n_; first += step) {
    const int64_t count = std::min(step, n_ - first);
    values.resize(static_cast<size_t>(count * k_));
    parallel_ranges(count, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to_floats(w_t, (first + i) * k_, k_, values.data() + i * k_);
    });
    const TensorView rows = {
        DType::kF32, {count, k_}, reinterpret_cast<const std::byte*>(values.data())};
    if (format.bits == 32) {
      pack(rows, first);
    } else if (format.bits == 16) {
      bytes.clear();
      append_rounded(DType::kBF16, values.data(), count * k_, bytes);
      pack(TensorView{DType::kBF16, rows.shape, bytes.data()}, first);
    } else {
      pack(ops::quantize(rows, format).view(), first);
    }
  }
}

// Most GGUF files are opened in this way, and their first token waits for it. Values and bytes
// therefore never leave a core's caches before they are in the panel.
void PackedMatrix::pack_rounded_to_int8(const TensorView& w_t) {
  parallel_for(panels(), [&](int64_t panel) {
    for (int64_t first = 0; first < k_; first += kRoundedColumns)
      round_columns(w_t, panel, first, std::min(kRoundedColumns, k_ - first));
  });
}

// Rounds `count` elements, from `first` on, of the rows that are columns of a panel.
void PackedMatrix::round_columns(const TensorView& w_t, int64_t panel, int64_t first,
                                 int64_t count) {
  std::array<float, kRoundedColumns> values;
  std::array<int8_t, kQuantGroup> bytes;
  uint32_t* const groups = panel_at(panel) + first / kQuantGroup * kInt8GroupWords;
  for (int64_t row = panel * kPanel; row < std::min(n_, (panel + 1) * kPanel); ++row) {
    to_floats(w_t, row * k_ + first, count, values.data());
    for (int64_t i = 0; i < count; i += kQuantGroup) {
      const int64_t size = std::min(kQuantGroup, count - i);
      uint32_t* const group = groups + i / kQuantGroup * kInt8GroupWords;
      const bf16 scale = ops::round_to_bytes(values.data() + i, size, bytes.data());
      pack_scale(scale, row % kPanel, group);
      pack_bytes(reinterpret_cast<const unsigned char*>(bytes.data()), size, row % kPanel, group);
    }
  }
}

// The packing threads of all domains wrote the panels first, so the first domain's have to move.
void PackedMatrix::copy_to_domains() {
  const auto& domains = bound_domains();
  if (domains.size() < 2) return;
  const int64_t words = panels() * panel_words();
  const auto bytes = static_cast<size_t>(words) * sizeof(uint32_t);
  prefer_node(words_.data(), bytes, domains[0].node);
  for (size_t domain = 1; domain < domains.size(); ++domain) {
    Buffer<uint32_t>& copy = copies_.emplace_back(words + kPanelPadding, Pages::kHuge);
    prefer_node(copy.data(), bytes, domains[domain].node);
    run_in_domain(static_cast<int>(domain),
                  [&] { std::memcpy(copy.data(), words_.data(), bytes); });
  }
}

int64_t PackedMatrix::allocated_words() const { return panels() * panel_words() + kPanelPadding; }

// Allocates the panels. Only the last panel, if it lacks columns, and the rows that bf16 pads each
// panel with are set to zero.
void PackedMatrix::allocate(Arena* arena) {
  const int64_t count = allocated_words();
  if (arena != nullptr) words_ = arena->take<uint32_t>(count);
  words_.reserve(count);
  const int64_t padding =
      type_ == WeightType::kBf16 ? (bf16_words(k_) - k_ / 2) * kPanel : int64_t{0};
  const auto clear = [&](int64_t panel, int64_t words) {
    std::fill_n(panel_at(panel + 1) - words, words, 0u);
  };
  for (int64_t i = 0; padding > 0 && i < panels(); ++i) clear(i, padding);
  if (n_ % kPanel != 0) clear(panels() - 1, panel_words());
}

int64_t PackedMatrix::words_before(int64_t k) const {
  switch (type_) {
    case WeightType::kFp32:
      return k * kPanel;
    case WeightType::kBf16:
      return bf16_words(k) * kPanel;
    case WeightType::kInt8:
      break;
    case WeightType::kCoded:
      return coded_.words_before(k);
    case WeightType::kInt6:
    case WeightType::kInt4: {
      const LowBitLayout layout = low_bit_layout();
      const int64_t rest = k % kQuantGroup;
      return k / kQuantGroup * layout.words(kQuantGroup) + (rest > 0 ? layout.words(rest) : 0);
    }
  }
  return (k + kQuantGroup - 1) / kQuantGroup * kHalfPanel +
         (k + kWordBytes - 1) / kWordBytes * kPanel;
}

LowBitLayout PackedMatrix::low_bit_layout() const {
  return type_ == WeightType::kInt6 ? kLayoutOfInt6 : layout_of_int4(multiplier_rows_);
}

// Two neighbouring k of a column are one word, with the even one in its low half. They are
// neighbours in the checkpoint, too, and are moved together.
void PackedMatrix::pack_bf16(const TensorView& rows, int64_t first_row) {
  const auto* source = reinterpret_cast<const unsigned char*>(rows.data);
  auto* packed = reinterpret_cast<unsigned char*>(panel_at(first_row / kPanel));
  for_each_chunk(
      k_, rows.rows(), kChunk, [&](int64_t panel, int64_t column, int64_t first, int64_t count) {
        const unsigned char* from = source + ((panel * kPanel + column) * k_ + first) * 2;
        unsigned char* to = packed + (panel * panel_words() + first / 2 * kPanel + column) * 4;
        int64_t i = 0;
        for (; i + 2 <= count; i += 2) std::memcpy(to + i * kPanel * 2, from + i * 2, 4);
        if (i < count) std::memcpy(to + i * kPanel * 2, from + i * 2, 2);
      });
}

void PackedMatrix::pack_fp32(const TensorView& rows, int64_t first_row) {
  auto* const packed = reinterpret_cast<float*>(panel_at(first_row / kPanel));
  for_each_chunk(k_, rows.rows(), kChunk,
                 [&](int64_t panel, int64_t column, int64_t first, int64_t count) {
                   std::array<float, kChunk> values;
                   to_floats(rows, (panel * kPanel + column) * k_ + first, count, values.data());
                   float* to = packed + (panel * k_ + first) * kPanel + column;
                   for (int64_t i = 0; i < count; ++i)
                     to[i * kPanel] = values[static_cast<size_t>(i)];
                 });
}

// A panel begins each group of 128 k with its scales, two bf16 to a word: column c in the low half,
// column c + kHalfPanel in the high half. Then come the bytes, four neighbouring k to a word.
void PackedMatrix::pack_int8(const ops::WeightView& rows, int64_t first_row) {
  const int64_t groups = (k_ + kQuantGroup - 1) / kQuantGroup;
  NMM_CHECK(rows.dtype == DType::kI8 && rows.scales.rows() == rows.rows() &&
            rows.scales.columns() == groups);
  uint32_t* const packed = panel_at(first_row / kPanel);
  const auto* source = reinterpret_cast<const unsigned char*>(rows.data);
  const auto pack_group = [&](int64_t panel, int64_t column, int64_t first, int64_t count) {
    const int64_t row = panel * kPanel + column, group = first / kQuantGroup;
    uint32_t* const to = packed + panel * panel_words() + group * kInt8GroupWords;
    pack_scale(rows, row, group, to);
    pack_bytes(source + row * k_ + first, count, column, to);
  };
  for_each_chunk(k_, rows.rows(), kQuantGroup, pack_group);
}

// The panel's columns are rows of the checkpoint. Each is read once, so that codes which are
// interleaved with those of other columns are in cache when the next column is read.
void PackedMatrix::pack_coded(const TensorView& w_t, Arena* arena) {
  const CodedValues& coded = *coded_values(w_t);
  const int64_t first_row = coded.first_row(w_t);
  NMM_CHECK(coded.columns() == k_);
  coded_ = CodedLayout(coded, first_row, n_);
  allocate(arena);
  parallel_for(panels(), [&](int64_t panel) {
    const int64_t first = panel * kPanel;
    coded_.pack_panel(coded, first_row + first, std::min(kPanel, n_ - first), panel_at(panel));
  });
}

void PackedMatrix::pack_low_bit(const ops::WeightView& rows, int64_t first_row) {
  const LowBitLayout layout = low_bit_layout();
  NMM_CHECK(rows.scales.rows() == rows.rows() &&
            rows.scales.columns() == (k_ + kQuantGroup - 1) / kQuantGroup);
  uint32_t* const packed = panel_at(first_row / kPanel);
  const auto* const groups = reinterpret_cast<const uint8_t*>(rows.groups.data);
  const auto pack_group = [&](int64_t panel, int64_t column, int64_t first, int64_t count) {
    const int64_t row = panel * kPanel + column, group = first / kQuantGroup;
    uint32_t* const to = packed + panel * panel_words() + group * layout.words(kQuantGroup);
    if (column == 0) std::fill_n(to, layout.first_line(), 0u);
    pack_scale(rows, row, group, to);
    if (type_ == WeightType::kInt4) {
      auto* const multipliers = reinterpret_cast<uint8_t*>(to + kHalfPanel);
      for (int64_t i = 0; i < count; i += multiplier_rows_) {
        multipliers[i / multiplier_rows_ * kPanel + column % kHalfPanel * 2 + column / kHalfPanel] =
            groups[row * rows.groups.columns() + (first + i) / multiplier_rows_];
      }
    }
    if (column < kHalfPanel) {
      pack_codes(rows, row, first, count, layout.lines_words, to + layout.first_line() + column);
    }
  };
  for_each_chunk(k_, rows.rows(), kQuantGroup, pack_group);
}

}  // namespace neuronmm::cpu
