#include "gguf_out/container_writer.h"

#include <bit>
#include <cstring>
#include <utility>

#include "gguf/gguf_metadata.h"

namespace neuronmm::gguf_out {
namespace {

using io::GgufValueType;

// The default of general.alignment, and the least that llama.cpp maps safely.
constexpr int64_t kAlignment = 32;
constexpr uint32_t kVersion = 3;

static_assert(std::endian::native == std::endian::little);

template <typename Number>
void put(std::string& out, Number value) {
  char bytes[sizeof(value)];
  std::memcpy(bytes, &value, sizeof(value));
  out.append(bytes, sizeof(value));
}

void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<uint64_t>(text.size()));
  out += text;
}

constexpr uint32_t number_of(GgufValueType type) { return static_cast<uint32_t>(type); }

void begin_array(std::string& out, GgufValueType type, size_t count) {
  put(out, number_of(type));
  put(out, static_cast<uint64_t>(count));
}

}  // namespace

bool Pairs::begin(std::string_view key, uint32_t type) {
  if (!keys_.emplace(key).second) return false;
  put_text(bytes_, key);
  put(bytes_, type);
  return true;
}

void Pairs::u32(std::string_view key, int64_t value) {
  if (begin(key, number_of(GgufValueType::kUint32))) put(bytes_, static_cast<uint32_t>(value));
}

void Pairs::i32(std::string_view key, int64_t value) {
  if (begin(key, number_of(GgufValueType::kInt32))) put(bytes_, static_cast<int32_t>(value));
}

void Pairs::f32(std::string_view key, double value) {
  if (begin(key, number_of(GgufValueType::kFloat32))) put(bytes_, static_cast<float>(value));
}

void Pairs::boolean(std::string_view key, bool value) {
  if (begin(key, number_of(GgufValueType::kBool))) put(bytes_, static_cast<uint8_t>(value));
}

void Pairs::text(std::string_view key, std::string_view value) {
  if (begin(key, number_of(GgufValueType::kString))) put_text(bytes_, value);
}

void Pairs::i32s(std::string_view key, std::span<const int64_t> values) {
  if (!begin(key, number_of(GgufValueType::kArray))) return;
  begin_array(bytes_, GgufValueType::kInt32, values.size());
  for (const int64_t value : values) put(bytes_, static_cast<int32_t>(value));
}

void Pairs::f32s(std::string_view key, std::span<const float> values) {
  if (!begin(key, number_of(GgufValueType::kArray))) return;
  begin_array(bytes_, GgufValueType::kFloat32, values.size());
  for (const float value : values) put(bytes_, value);
}

void Pairs::booleans(std::string_view key, const std::vector<bool>& values) {
  if (!begin(key, number_of(GgufValueType::kArray))) return;
  begin_array(bytes_, GgufValueType::kBool, values.size());
  for (const bool value : values) put(bytes_, static_cast<uint8_t>(value));
}

void Pairs::texts(std::string_view key, std::span<const std::string> values) {
  if (!begin(key, number_of(GgufValueType::kArray))) return;
  begin_array(bytes_, GgufValueType::kString, values.size());
  for (const std::string& value : values) put_text(bytes_, value);
}

int64_t TensorInfo::bytes() const {
  return encoded_bytes(type, TensorView{DType::kF32, shape, nullptr}.size());
}

int64_t container_padding(int64_t bytes) { return (kAlignment - bytes % kAlignment) % kAlignment; }

std::string container_header(const Pairs& pairs, std::span<const TensorInfo> tensors) {
  std::string header = "GGUF";
  put(header, kVersion);
  put(header, static_cast<uint64_t>(tensors.size()));
  put(header, static_cast<uint64_t>(pairs.count()));
  header += pairs.bytes();
  uint64_t offset = 0;
  for (const TensorInfo& tensor : tensors) {
    put_text(header, tensor.name);
    put(header, static_cast<uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
      put(header, static_cast<uint64_t>(*size));
    put(header, static_cast<uint32_t>(info(tensor.type).number));
    put(header, offset);
    const int64_t bytes = tensor.bytes();
    offset += static_cast<uint64_t>(bytes + container_padding(bytes));
  }
  header.append(static_cast<size_t>(container_padding(std::ssize(header))), '\0');
  return header;
}

Result<ContainerWriter> ContainerWriter::create(const std::filesystem::path& path,
                                                const Pairs& pairs,
                                                std::vector<TensorInfo> tensors) {
  NMM_ASSIGN(io::AtomicFile file, io::AtomicFile::create(path));
  const std::string header = container_header(pairs, tensors);
  NMM_TRY(file.append(std::as_bytes(std::span(header))));
  return ContainerWriter(std::move(file), std::move(tensors));
}

Status ContainerWriter::append(std::span<const std::byte> bytes) {
  written_ += std::ssize(bytes);
  return file_.append(bytes);
}

Status ContainerWriter::end_tensor() {
  NMM_CHECK(tensor_ < tensors_.size() && written_ == tensors_[tensor_].bytes());
  const std::byte zeros[kAlignment] = {};
  NMM_TRY(file_.append(std::span(zeros).first(static_cast<size_t>(container_padding(written_)))));
  ++tensor_;
  written_ = 0;
  return {};
}

Status ContainerWriter::finish() {
  NMM_CHECK(tensor_ == tensors_.size());
  return file_.finish();
}

}  // namespace neuronmm::gguf_out
