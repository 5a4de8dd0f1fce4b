#include "gguf/gguf_file.h"

#include <algorithm>
#include <limits>
#include <set>

#include "io/mistaken_files.h"

namespace neuronmm::io {
namespace {

// Version 2 differs from version 3 only in that it is always little-endian. Version 1 had counts of
// 32 bits.
constexpr uint32_t kOldestVersion = 2, kNewestVersion = 3;
constexpr std::string_view kMagic = "GGUF";
constexpr std::string_view kAlignmentKey = "general.alignment";
// The value of docs/gguf.md, which also has the two limits below.
constexpr uint64_t kDefaultAlignment = 32;
constexpr size_t kMaxNameBytes = 64;
constexpr uint32_t kMaxDimensions = 4;
// Assumed: the largest published model has some ten thousand tensors. The limit keeps a file of
// nothing but names from taking more memory than itself.
constexpr uint64_t kMaxTensors = 1 << 18;
// A name of one letter and one dimension.
constexpr uint64_t kLeastInfoBytes = 8 + 1 + 4 + 8 + 4 + 8;

// A tensor whose bytes have not been located yet.
struct UnlocatedTensor {
  GgufTensor tensor;
  uint64_t offset, size;  // The position in the tensor data.
};

// A big-endian machine writes version 3 as bytes that read as 3 * 2^24 here.
Status check_version(uint32_t version, const std::string& source) {
  if (version >= kOldestVersion && version <= kNewestVersion) return {};
  if ((version & 0xFFFF) == 0 && version != 0)
    return fail(
        "{}: expected a little-endian file, found a big-endian one (version {}); convert it with "
        "gguf_convert_endian.py of llama.cpp, or download the little-endian file",
        source, __builtin_bswap32(version));
  return fail("{}: expected GGUF version {} or {}, found version {} ({})", source, kOldestVersion,
              kNewestVersion, version,
              version < kOldestVersion ? "download a newer file of the model"
                                       : "is there a newer neuronmm?");
}

// Returns what the bytes are if they do not begin as a GGUF file, and nothing otherwise.
std::string described(std::span<const std::byte> bytes) {
  const size_t size = std::min(bytes.size(), kMagic.size());
  if (size > 0 && std::memcmp(bytes.data(), kMagic.data(), size) == 0) return {};
  const std::string text = describe_mistaken_file(bytes);
  return text.empty() ? "other first bytes" : text;
}

Result<uint64_t> read_alignment(const GgufMetadata& metadata) {
  NMM_ASSIGN(const auto given, metadata.integer(kAlignmentKey));
  if (!given) return kDefaultAlignment;
  if (*given <= 0 || *given % 8 != 0 || *given > std::numeric_limits<uint32_t>::max())
    return metadata.wrong(kAlignmentKey, "a multiple of 8");
  return static_cast<uint64_t>(*given);
}

// Returns the bytes of all blocks. Every row must consist of whole blocks, so that it can be read
// alone.
Result<uint64_t> checked_size(const GgufTensor& tensor, const std::string& what) {
  const auto blocks_of_row = tensor.columns() / tensor.type->block_elements;
  if (tensor.columns() % tensor.type->block_elements != 0)
    return fail("{}: expected rows of a multiple of {} weights for {}, found {}", what,
                tensor.type->block_elements, tensor.type->name, tensor.columns());
  int64_t size = blocks_of_row;
  bool fits = !__builtin_mul_overflow(size, tensor.type->block_bytes, &size);
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i)
    fits = fits && !__builtin_mul_overflow(size, tensor.shape[i], &size);
  if (!fits)
    return fail("{}: its shape {} takes 2^63 bytes or more", what, shape_string(tensor.shape));
  return static_cast<uint64_t>(size);
}

Result<Shape> read_shape(GgufCursor& cursor, const std::string& what) {
  NMM_ASSIGN(const auto dimensions, cursor.number<uint32_t>(what));
  if (dimensions < 1 || dimensions > kMaxDimensions)
    return fail("{}: {}: expected 1 to {} dimensions, found {}", cursor.source(), what,
                kMaxDimensions, dimensions);
  Shape shape(dimensions);
  for (uint32_t i = 0; i < dimensions; ++i) {
    NMM_ASSIGN(const auto extent, cursor.number<uint64_t>(what));
    if (extent < 1 || extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return fail("{}: {}: dimension {}: expected 1 to 2^63 - 1, found {}", cursor.source(), what,
                  i, extent);
    shape[dimensions - 1 - i] = static_cast<int64_t>(extent);
  }
  return shape;
}

Result<UnlocatedTensor> read_info(GgufCursor& cursor, uint64_t index, uint64_t alignment) {
  NMM_ASSIGN(const auto name, cursor.text(fmt::format("the name of tensor {}", index)));
  if (name.empty() || name.size() > kMaxNameBytes)
    return fail("{}: the name of tensor {}: expected 1 to {} bytes, found {}", cursor.source(),
                index, kMaxNameBytes, name.size());
  const std::string what = fmt::format("tensor {:?}", name);
  UnlocatedTensor info;
  info.tensor.name = name;
  NMM_ASSIGN(info.tensor.shape, read_shape(cursor, what));
  NMM_ASSIGN(const auto type, cursor.number<uint32_t>(what));
  info.tensor.type = find_gguf_type(type);
  if (info.tensor.type == nullptr)
    return fail("{}: {}: its type is {}", cursor.source(), what, describe_unknown_gguf_type(type));
  NMM_ASSIGN(info.size, checked_size(info.tensor, cursor.source() + ": " + what));
  NMM_ASSIGN(info.offset, cursor.number<uint64_t>(what));
  if (info.offset % alignment != 0)
    return fail("{}: {}: expected an offset that is a multiple of {}, found {}", cursor.source(),
                what, alignment, info.offset);
  return info;
}

Status check_names(const std::vector<UnlocatedTensor>& infos, const std::string& source) {
  std::set<std::string_view> names;
  for (const UnlocatedTensor& info : infos) {
    if (!names.insert(info.tensor.name).second)
      return fail("{}: tensor {:?} is there twice", source, info.tensor.name);
  }
  return {};
}

// Tensors may have any order and any gaps, but they must not share bytes.
Status check_locations(const std::vector<UnlocatedTensor>& infos, uint64_t data_bytes,
                       const std::string& source) {
  std::vector<const UnlocatedTensor*> by_offset;
  for (const UnlocatedTensor& info : infos) {
    if (info.offset > data_bytes || info.size > data_bytes - info.offset)
      return fail(
          "{}: tensor {:?}: expected {} bytes from byte {} of the tensor data on, which has "
          "{} bytes (an incomplete download?)",
          source, info.tensor.name, info.size, info.offset, data_bytes);
    by_offset.push_back(&info);
  }
  std::ranges::sort(by_offset, {}, &UnlocatedTensor::offset);
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const UnlocatedTensor &before = *by_offset[i - 1], &after = *by_offset[i];
    if (before.offset + before.size > after.offset)
      return fail(
          "{}: tensors {:?} and {:?} overlap: the first ends at byte {} of the tensor data, "
          "the second begins at byte {}",
          source, before.tensor.name, after.tensor.name, before.offset + before.size, after.offset);
  }
  return {};
}

}  // namespace

int64_t GgufTensor::rows() const {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, const std::string& source) {
  GgufCursor cursor(bytes, source);
  if (const std::string found = described(bytes); !found.empty())
    return fail("{}: expected a GGUF file, found {}", source, found);
  NMM_ASSIGN([[maybe_unused]] const auto magic, cursor.take(kMagic.size(), "the first bytes"));
  NMM_ASSIGN(const auto version, cursor.number<uint32_t>("version"));
  NMM_TRY(check_version(version, source));
  NMM_ASSIGN(const auto tensors, cursor.number<uint64_t>("tensor count"));
  NMM_ASSIGN(const auto pairs, cursor.number<uint64_t>("key-value count"));
  GgufFile file;
  NMM_ASSIGN(file.metadata_, GgufMetadata::read(cursor, pairs));
  NMM_ASSIGN(const uint64_t alignment, read_alignment(file.metadata_));
  NMM_TRY(cursor.expect_remaining(tensors, kLeastInfoBytes, "tensors"));
  if (tensors > kMaxTensors)
    return fail("{}: expected at most {} tensors, found {}", source, kMaxTensors, tensors);
  std::vector<UnlocatedTensor> infos;
  for (uint64_t i = 0; i < tensors; ++i) {
    NMM_ASSIGN(UnlocatedTensor info, read_info(cursor, i, alignment));
    infos.push_back(std::move(info));
  }
  NMM_TRY(check_names(infos, source));
  // A file without tensors may end before its padding does.
  const uint64_t padding = (alignment - cursor.position() % alignment) % alignment;
  const auto data = bytes.subspan(std::min<uint64_t>(cursor.position() + padding, bytes.size()));
  NMM_TRY(check_locations(infos, data.size(), source));
  for (UnlocatedTensor& info : infos) {
    info.tensor.data = data.subspan(info.offset, info.size);
    file.tensors_.push_back(std::move(info.tensor));
  }
  return file;
}

Result<GgufFile> GgufFile::open(const std::filesystem::path& path) {
  NMM_ASSIGN(auto mapped, MappedFile::open(path));
  NMM_ASSIGN(GgufFile file, parse(mapped->bytes(), path.string()));
  file.file_ = std::move(mapped);
  return file;
}

void GgufFile::release_pages() const {
  if (file_) file_->release_pages();
}

}  // namespace neuronmm::io
