#include "gguf/gguf_metadata.h"

#include <array>
#include <cstdlib>
#include <limits>

namespace neuronmm::io {
namespace {

using Type = GgufValueType;

// The limit of docs/gguf.md.
constexpr uint64_t kMaxKeyBytes = 65535;
// No published file has an array in an array.
constexpr int kMaxNesting = 8;
// Assumed: published files have some dozens of pairs. The limit keeps a file of nothing but keys
// from taking more memory than itself.
constexpr uint64_t kMaxPairs = 1 << 16;
// A length, a key, a type and the smallest value.
constexpr uint64_t kLeastPairBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kLeastStringBytes = 8;
constexpr uint64_t kLeastArrayBytes = 4 + 8;

struct TypeInfo {
  std::string_view name;
  uint64_t bytes;  // 0 if the size depends on the value.
};
constexpr std::array<TypeInfo, 13> kTypes = {{{"uint8", 1},
                                              {"int8", 1},
                                              {"uint16", 2},
                                              {"int16", 2},
                                              {"uint32", 4},
                                              {"int32", 4},
                                              {"float32", 4},
                                              {"bool", 1},
                                              {"string", 0},
                                              {"array", 0},
                                              {"uint64", 8},
                                              {"int64", 8},
                                              {"float64", 8}}};

const TypeInfo& info(Type type) { return kTypes[static_cast<size_t>(type)]; }

bool is_integer(Type type) {
  return info(type).bytes != 0 && type != Type::kBool && type != Type::kFloat32 &&
         type != Type::kFloat64;
}

template <typename Number>
Number load(const std::byte* bytes) {
  Number value;
  std::memcpy(&value, bytes, sizeof(Number));
  return value;
}

// Returns element `i` of a value of integers, or nullopt if it exceeds int64_t.
std::optional<int64_t> integer_at(const GgufValue& value, uint64_t i) {
  const std::byte* at = value.elements.data() + i * info(value.type).bytes;
  switch (value.type) {
    case Type::kUint8:
      return load<uint8_t>(at);
    case Type::kInt8:
      return load<int8_t>(at);
    case Type::kUint16:
      return load<uint16_t>(at);
    case Type::kInt16:
      return load<int16_t>(at);
    case Type::kUint32:
      return load<uint32_t>(at);
    case Type::kInt32:
      return load<int32_t>(at);
    case Type::kInt64:
      return load<int64_t>(at);
    default:
      break;
  }
  const auto large = load<uint64_t>(at);
  if (large > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(large);
}

// Returns the decimal number that the float32 prints as. A file with 1e-05 means that number, not
// the nearest float32.
double decimal_of(float value) { return std::strtod(fmt::format("{}", value).c_str(), nullptr); }

std::optional<double> number_at(const GgufValue& value, uint64_t i) {
  if (value.type == Type::kFloat32) return decimal_of(load<float>(value.elements.data() + 4 * i));
  if (value.type == Type::kFloat64) return load<double>(value.elements.data() + 8 * i);
  const std::optional<int64_t> integer = integer_at(value, i);
  if (!integer) return std::nullopt;
  return static_cast<double>(*integer);
}

// Returns the string at the start of checked bytes.
std::string_view string_at(std::span<const std::byte> bytes) {
  const auto length = load<uint64_t>(bytes.data());
  return {reinterpret_cast<const char*>(bytes.data()) + sizeof(length), length};
}

std::string describe(const GgufValue& value) {
  if (value.is_array) return fmt::format("an array of {} {}", value.count, info(value.type).name);
  if (value.type == Type::kString) {
    const std::string_view text = string_at(value.elements);
    return text.size() > 60 ? fmt::format("{:?}...", text.substr(0, 60))
                            : fmt::format("{:?}", text);
  }
  if (value.type == Type::kBool)
    return load<uint8_t>(value.elements.data()) != 0 ? "true" : "false";
  const std::optional<double> number = number_at(value, 0);
  return fmt::format("{} {}", info(value.type).name,
                     number ? fmt::format("{}", *number) : "2^63 or more");
}

Result<Type> read_type(GgufCursor& cursor, const std::string& what) {
  NMM_ASSIGN(const auto number, cursor.number<uint32_t>(what));
  if (number >= kTypes.size())
    return fail("{}: {}: expected a value type from 0 to {}, found {}", cursor.source(), what,
                kTypes.size() - 1, number);
  return static_cast<Type>(number);
}

Status check_bools(const GgufValue& value, const GgufCursor& cursor, const std::string& what) {
  for (const std::byte byte : value.elements) {
    if (byte > std::byte{1})
      return fail("{}: {}: expected a bool (0 or 1), found {}", cursor.source(), what,
                  static_cast<int>(byte));
  }
  return {};
}

Result<GgufValue> read_elements(GgufCursor& cursor, Type type, bool is_array, uint64_t count,
                                const std::string& what, int nesting);

// Reads an array, which begins with the type and the number of its elements.
Result<GgufValue> read_array(GgufCursor& cursor, const std::string& what, int nesting) {
  if (nesting == kMaxNesting)
    return fail("{}: {}: arrays are nested more than {} deep", cursor.source(), what, kMaxNesting);
  NMM_ASSIGN(const Type type, read_type(cursor, what));
  NMM_ASSIGN(const auto count, cursor.number<uint64_t>(what));
  return read_elements(cursor, type, /*is_array=*/true, count, what, nesting + 1);
}

Result<GgufValue> read_elements(GgufCursor& cursor, Type type, bool is_array, uint64_t count,
                                const std::string& what, int nesting) {
  GgufValue value{type, is_array, count, {}};
  if (type == Type::kString) {
    NMM_TRY(cursor.expect_remaining(count, kLeastStringBytes, what));
    const std::span<const std::byte> rest = cursor.rest();
    for (uint64_t i = 0; i < count; ++i) {
      NMM_ASSIGN([[maybe_unused]] const auto text, cursor.text(what));
    }
    value.elements = rest.first(rest.size() - cursor.remaining());
    return value;
  }
  if (type == Type::kArray) {
    NMM_TRY(cursor.expect_remaining(count, kLeastArrayBytes, what));
    for (uint64_t i = 0; i < count; ++i) NMM_TRY(read_array(cursor, what, nesting));
    return value;
  }
  NMM_TRY(cursor.expect_remaining(count, info(type).bytes, what));
  NMM_ASSIGN(value.elements, cursor.take(count * info(type).bytes, what));
  if (type == Type::kBool) NMM_TRY(check_bools(value, cursor, what));
  return value;
}

Result<std::string_view> read_key(GgufCursor& cursor, uint64_t index) {
  const std::string what = fmt::format("key {}", index);
  NMM_ASSIGN(const auto key, cursor.text(what));
  if (key.empty() || key.size() > kMaxKeyBytes)
    return fail("{}: {}: expected 1 to {} bytes, found {}", cursor.source(), what, kMaxKeyBytes,
                key.size());
  return key;
}

}  // namespace

Result<GgufMetadata> GgufMetadata::read(GgufCursor& cursor, uint64_t count) {
  GgufMetadata metadata;
  metadata.source_ = cursor.source();
  NMM_TRY(cursor.expect_remaining(count, kLeastPairBytes, "key-value pairs"));
  if (count > kMaxPairs)
    return fail("{}: expected at most {} key-value pairs, found {}", cursor.source(), kMaxPairs,
                count);
  for (uint64_t i = 0; i < count; ++i) {
    NMM_ASSIGN(const auto key, read_key(cursor, i));
    const std::string what = fmt::format("{:?}", key);
    NMM_ASSIGN(const Type type, read_type(cursor, what));
    NMM_ASSIGN(GgufValue value, type == Type::kArray
                                    ? read_array(cursor, what, 0)
                                    : read_elements(cursor, type, false, 1, what, 0));
    if (!metadata.values_.emplace(key, std::move(value)).second)
      return fail("{}: {}: the key is there twice", cursor.source(), what);
  }
  return metadata;
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

Error GgufMetadata::wrong(std::string_view key, std::string_view expected) const {
  const GgufValue* value = find(key);
  return fail("{}: {:?}: expected {}, found {}", source_, key, expected,
              value != nullptr ? describe(*value) : "nothing");
}

Error GgufMetadata::missing(std::string_view key) const {
  return fail("{}: {:?} is missing", source_, key);
}

Result<std::optional<int64_t>> GgufMetadata::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<int64_t>();
  if (value->is_array || !is_integer(value->type)) return wrong(key, "an integer");
  const std::optional<int64_t> integer = integer_at(*value, 0);
  if (!integer) return wrong(key, "an integer below 2^63");
  return integer;
}

Result<std::optional<double>> GgufMetadata::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<double>();
  const bool is_number = info(value->type).bytes != 0 && value->type != Type::kBool;
  if (value->is_array || !is_number) return wrong(key, "a number");
  const std::optional<double> number = number_at(*value, 0);
  if (!number) return wrong(key, "a number below 2^63");
  return number;
}

Result<std::optional<bool>> GgufMetadata::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<bool>();
  if (value->is_array || value->type != Type::kBool) return wrong(key, "a bool");
  return std::optional<bool>(value->elements.front() != std::byte{0});
}

Result<std::optional<std::string>> GgufMetadata::string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (value->is_array || value->type != Type::kString) return wrong(key, "a string");
  return std::optional<std::string>(string_at(value->elements));
}

uint64_t GgufMetadata::count(std::string_view key) const {
  const GgufValue* value = find(key);
  return value == nullptr ? 0 : value->count;
}

Result<std::vector<std::string_view>> GgufMetadata::strings(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::vector<std::string_view>();
  if (!value->is_array || value->type != Type::kString) return wrong(key, "an array of strings");
  std::vector<std::string_view> strings;
  strings.reserve(value->count);
  for (auto rest = value->elements; !rest.empty();) {
    strings.push_back(string_at(rest));
    rest = rest.subspan(sizeof(uint64_t) + strings.back().size());
  }
  return strings;
}

Result<std::vector<int64_t>> GgufMetadata::integers(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::vector<int64_t>();
  if (!value->is_array || !is_integer(value->type)) return wrong(key, "an array of integers");
  std::vector<int64_t> integers;
  integers.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    const std::optional<int64_t> integer = integer_at(*value, i);
    if (!integer) return wrong(key, "an array of integers below 2^63");
    integers.push_back(*integer);
  }
  return integers;
}

Result<std::vector<double>> GgufMetadata::numbers(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::vector<double>();
  const bool is_number = info(value->type).bytes != 0 && value->type != Type::kBool;
  if (!value->is_array || !is_number) return wrong(key, "an array of numbers");
  std::vector<double> numbers;
  numbers.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    // Scores are compared and not shown, so 32000 of them need no conversion to decimal.
    const std::optional<double> number =
        value->type == Type::kFloat32
            ? std::optional<double>(load<float>(value->elements.data() + 4 * i))
            : number_at(*value, i);
    if (!number) return wrong(key, "an array of numbers below 2^63");
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace neuronmm::io
