#include "io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include <nlohmann/json.hpp>
#include <xxhash.h>

#include "io/json_builder.h"
#include "io/json_file.h"
#include "io/mapped_file.h"
#include "io/mistaken_files.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensors are read and written in place");

constexpr uint64_t kLengthBytes = sizeof(uint64_t);
// The limit of the reference library.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::string_view kIncomplete = "(an incomplete download?)";

// A tensor of the header, before its place in the file was checked.
struct UncheckedTensor {
  std::string name;
  uint64_t begin, end;  // The data_offsets.
  TensorView view;      // The view has no data yet.
};

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns the text of the header, whose length is in the first eight bytes.
Result<std::string_view> header_text(std::span<const std::byte> bytes, const std::string& source) {
  if (bytes.size() < kLengthBytes)
    return fail("{}: expected at least {} bytes, found {} {}", source, kLengthBytes, bytes.size(),
                kIncomplete);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  const bool begins_json = bytes.size() > kLengthBytes && bytes[kLengthBytes] == std::byte{'{'};
  if (length > kMaxHeaderBytes || (!begins_json && bytes.size() > kLengthBytes)) {
    const std::string found = describe_mistaken_file(bytes);
    if (!found.empty()) return fail("{}: expected a safetensors file, found {}", source, found);
  }
  if (length > kMaxHeaderBytes)
    return fail("{}: header length: expected at most {} bytes, found {} (not a safetensors file?)",
                source, kMaxHeaderBytes, length);
  if (length > bytes.size() - kLengthBytes)
    return fail("{}: the header ends at byte {}, the file already at byte {} {}", source,
                kLengthBytes + length, bytes.size(), kIncomplete);
  return as_text(bytes.subspan(kLengthBytes, length));
}

// Parses the header, in which no key may occur twice.
Result<json> parse_header(std::string_view text, const std::string& source) {
  JsonBuilder builder;
  if (!json::sax_parse(text, &builder))
    return fail("{}: malformed JSON: {}", source, builder.error());
  if (!builder.value().is_object())
    return fail("{}: expected a JSON object, found {}", source, describe_json(builder.value()));
  return std::move(builder.value());
}

// Reads the metadata, which may contain only strings according to the format.
Result<std::map<std::string, std::string>> read_metadata(const json& value,
                                                         const std::string& source) {
  std::map<std::string, std::string> metadata;
  if (!value.is_object())
    return fail("{}: __metadata__: expected an object, found {}", source, describe_json(value));
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      return fail("{}: __metadata__ {:?}: expected a string, found {}", source, key,
                  describe_json(text));
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

Result<DType> read_dtype(const JsonFields& fields) {
  NMM_ASSIGN(const auto name, fields.string("dtype"));
  if (!name) return fields.missing("dtype");
  const Result<DType> dtype = parse_dtype(*name);
  if (!dtype.ok()) return fail("{}: {}", fields.source(), dtype.error().message);
  return dtype;
}

// The number must be unsigned, because "-0" and 2^63 are no sizes.
bool is_size(const json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= INT64_MAX;
}

// A scalar has the shape [].
Result<Shape> read_shape(const JsonFields& fields) {
  const json* value = fields.find("shape");
  if (value == nullptr) return fields.missing("shape");
  if (!value->is_array()) return fields.wrong("shape", "a list of sizes");
  Shape shape;
  for (const json& extent : *value) {
    if (!is_size(extent))
      return fail("{}: shape: expected sizes of 0 to 2^63 - 1, found {}", fields.source(),
                  describe_json(extent));
    shape.push_back(extent.get<int64_t>());
  }
  return shape;
}

// Returns the bytes of a tensor, or nullopt if they do not fit int64_t.
std::optional<uint64_t> checked_size_bytes(DType dtype, const Shape& shape) {
  int64_t bytes = 1;
  for (int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  if (__builtin_mul_overflow(bytes, dtype_size_bytes(dtype), &bytes)) return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

// Shape, dtype and offsets must agree on the number of bytes.
Result<UncheckedTensor> read_entry(const std::string& name, const json& value,
                                   const std::string& source) {
  const std::string tensor = fmt::format("{}: tensor {:?}", source, name);
  if (!value.is_object())
    return fail("{}: expected an object, found {}", tensor, describe_json(value));
  const JsonFields fields(value, tensor);
  UncheckedTensor entry{name, 0, 0, {}};
  NMM_ASSIGN(entry.view.dtype, read_dtype(fields));
  NMM_ASSIGN(entry.view.shape, read_shape(fields));
  const json* offsets = fields.find("data_offsets");
  if (offsets == nullptr) return fields.missing("data_offsets");
  if (!offsets->is_array() || offsets->size() != 2 || !is_size((*offsets)[0]) ||
      !is_size((*offsets)[1]))
    return fields.wrong("data_offsets", "a list of two offsets");
  entry.begin = (*offsets)[0].get<uint64_t>();
  entry.end = (*offsets)[1].get<uint64_t>();
  if (entry.begin > entry.end)
    return fail("{}: data_offsets: expected begin <= end, found [{}, {}]", tensor, entry.begin,
                entry.end);
  const auto bytes = checked_size_bytes(entry.view.dtype, entry.view.shape);
  if (!bytes)
    return fail("{}: shape {}: its size does not fit 63 bits", tensor,
                shape_string(entry.view.shape));
  if (*bytes != entry.end - entry.begin)
    return fail("{}: {} {} takes {} bytes, found {} in data_offsets [{}, {}]", tensor,
                dtype_name(entry.view.dtype), shape_string(entry.view.shape), *bytes,
                entry.end - entry.begin, entry.begin, entry.end);
  return entry;
}

// The tensors must fill the data without gaps or overlaps, and end where the file ends. Anything
// else is a damaged file or an attempt to read one tensor as another.
Status check_layout(std::vector<UncheckedTensor>& tensors, uint64_t data_bytes,
                    const std::string& source) {
  std::sort(tensors.begin(), tensors.end(), [](const UncheckedTensor& a, const UncheckedTensor& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  uint64_t cursor = 0;
  for (const UncheckedTensor& tensor : tensors) {
    // The tensors are sorted by their begins, so each must begin where the one before has ended.
    if (tensor.begin != cursor)
      return fail(
          "{}: tensor {:?}: data_offsets begin at {}, which {} the tensor before (ends at {})",
          source, tensor.name, tensor.begin,
          tensor.begin < cursor ? "overlaps" : "leaves a gap after", cursor);
    cursor = tensor.end;
    if (cursor > data_bytes)
      return fail("{}: tensor {:?}: its data end at byte {} of the data, the file at byte {} {}",
                  source, tensor.name, cursor, data_bytes, kIncomplete);
  }
  if (cursor != data_bytes)
    return fail("{}: expected {} bytes of data after the header, found {}", source, cursor,
                data_bytes);
  return {};
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  NMM_ASSIGN(auto mapped, MappedFile::open(path));
  NMM_ASSIGN(SafetensorsFile file, parse(mapped->bytes(), path.string()));
  file.file_ = std::move(mapped);
  return file;
}

Result<SafetensorsFile> SafetensorsFile::open_checked(const std::filesystem::path& path) {
  NMM_ASSIGN(SafetensorsFile file, open(path));
  if (!file.has_checksum_) return fail("{}: expected a checksum, found none", path.string());
  const std::span<const std::byte> bytes = file.file_->bytes();
  uint64_t expected = 0;
  const size_t summed = bytes.size() - sizeof(expected);
  std::memcpy(&expected, bytes.data() + summed, sizeof(expected));
  if (XXH3_64bits(bytes.data(), summed) != expected) {
    return fail("{}: is damaged: its bytes do not have its checksum", path.string());
  }
  return file;
}

void SafetensorsFile::release_pages() const {
  if (file_ != nullptr) file_->release_pages();
}

// The whole header is checked before any view of the data is made.
Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> bytes,
                                               const std::string& source) {
  NMM_ASSIGN(const std::string_view text, header_text(bytes, source));
  NMM_ASSIGN(const json header, parse_header(text, source + ": header"));
  SafetensorsFile file;
  std::vector<UncheckedTensor> tensors;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadataKey) {
      NMM_ASSIGN(file.metadata_, read_metadata(value, source));
    } else {
      NMM_ASSIGN(UncheckedTensor entry, read_entry(name, value, source));
      tensors.push_back(std::move(entry));
    }
  }
  const auto data = bytes.subspan(kLengthBytes + text.size());
  NMM_TRY(check_layout(tensors, data.size(), source));
  for (UncheckedTensor& tensor : tensors) {
    tensor.view.data = data.data() + tensor.begin;
    file.tensors_.emplace(std::move(tensor.name), std::move(tensor.view));
  }
  file.has_checksum_ = file.tensors_.erase(kChecksumName) > 0;
  return file;
}

}  // namespace neuronmm::io
