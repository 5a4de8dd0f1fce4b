#include "io/safetensors_writer.h"

#include <cstring>

#include <nlohmann/json.hpp>
#include <xxhash.h>

#include "io/atomic_file.h"
#include "io/safetensors.h"

namespace neuronmm::io {
namespace {

using nlohmann::json;

// The reference library pads the header with spaces to this multiple, so that data of 8-byte dtypes
// can be aligned.
constexpr size_t kHeaderAlignment = 8;

struct Header {
  json entries = json::object();
  uint64_t data_bytes = 0;
};

// Tensors follow each other in the order of `specs`, so that offsets are known before any byte is
// written.
Result<Header> make_header(const std::vector<TensorSpec>& specs,
                           const std::map<std::string, std::string>& metadata,
                           const std::string& source) {
  Header header;
  if (!metadata.empty()) header.entries["__metadata__"] = metadata;
  for (const TensorSpec& spec : specs) {
    if (spec.name == "__metadata__" || header.entries.contains(spec.name))
      return fail("{}: tensor {:?}: the name is taken", source, spec.name);
    uint64_t bytes = static_cast<uint64_t>(dtype_size_bytes(spec.dtype));
    for (int64_t extent : spec.shape) {
      if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes))
        return fail("{}: tensor {:?}: impossible shape {}", source, spec.name,
                    shape_string(spec.shape));
    }
    const uint64_t begin = header.data_bytes;
    if (__builtin_add_overflow(begin, bytes, &header.data_bytes))
      return fail("{}: the tensors do not fit 64 bits", source);
    header.entries[spec.name] = {{"dtype", dtype_name(spec.dtype)},
                                 {"shape", spec.shape},
                                 {"data_offsets", {begin, header.data_bytes}}};
  }
  return header;
}

// Spaces at the end are part of the JSON and change nothing.
std::string padded_text(const json& entries) {
  // Names may come from anywhere. Bytes that are not UTF-8 are replaced, so that dump() does not
  // throw.
  std::string text = entries.dump(-1, ' ', false, json::error_handler_t::replace);
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  return text;
}

struct FreeHash {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};
using Hash = std::unique_ptr<XXH3_state_t, FreeHash>;

}  // namespace

struct SafetensorsWriter::State {
  std::string source;
  AtomicFile file;
  // The hash of all bytes so far; null if the file has no checksum.
  Hash hash;
  // Bytes of the tensors.
  uint64_t expected_bytes = 0, appended_bytes = 0;

  Status append(std::span<const std::byte> bytes) {
    if (hash) XXH3_64bits_update(hash.get(), bytes.data(), bytes.size());
    return file.append(bytes);
  }
};

SafetensorsWriter::SafetensorsWriter() = default;
SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter& SafetensorsWriter::operator=(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

// The header goes first. The tensors are written as they come and never held as a whole.
Result<SafetensorsWriter> SafetensorsWriter::create(
    const std::filesystem::path& path, const std::vector<TensorSpec>& specs,
    const std::map<std::string, std::string>& metadata) {
  return begin(path, specs, metadata, /*checked=*/false);
}

Result<SafetensorsWriter> SafetensorsWriter::create_checked(
    const std::filesystem::path& path, std::vector<TensorSpec> specs,
    const std::map<std::string, std::string>& metadata) {
  specs.push_back({kChecksumName, DType::kI64, {1}});
  return begin(path, specs, metadata, /*checked=*/true);
}

Result<SafetensorsWriter> SafetensorsWriter::begin(
    const std::filesystem::path& path, const std::vector<TensorSpec>& specs,
    const std::map<std::string, std::string>& metadata, bool checked) {
  NMM_ASSIGN(const Header header, make_header(specs, metadata, path.string()));
  const std::string text = padded_text(header.entries);
  const uint64_t length = text.size();
  NMM_ASSIGN(AtomicFile file, AtomicFile::create(path));
  SafetensorsWriter writer;
  writer.state_ = std::make_unique<State>(State{path.string(), std::move(file), {}});
  State& state = *writer.state_;
  state.expected_bytes = header.data_bytes - (checked ? sizeof(XXH64_hash_t) : 0);
  if (checked) {
    state.hash.reset(XXH3_createState());
    XXH3_64bits_reset(state.hash.get());
  }
  NMM_TRY(state.append(std::as_bytes(std::span(&length, 1))));
  NMM_TRY(state.append(std::as_bytes(std::span(text))));
  return writer;
}

Status SafetensorsWriter::append(std::span<const std::byte> bytes) {
  state_->appended_bytes += bytes.size();
  return state_->append(bytes);
}

// The header promises a number of bytes. A file with fewer bytes would be taken for a truncated
// one.
Status SafetensorsWriter::finish() {
  if (state_->appended_bytes != state_->expected_bytes)
    return fail("{}: expected {} bytes of tensors, {} were written", state_->source,
                state_->expected_bytes, state_->appended_bytes);
  if (state_->hash) {
    const XXH64_hash_t sum = XXH3_64bits_digest(state_->hash.get());
    NMM_TRY(state_->file.append(std::as_bytes(std::span(&sum, 1))));
  }
  return state_->file.finish();
}

}  // namespace neuronmm::io
