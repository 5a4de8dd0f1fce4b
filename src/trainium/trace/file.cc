#include "trainium/trace/file.h"

#include <cstring>

#include "trainium/trace/records.h"

namespace neuronmm::trace {

namespace {

constexpr size_t kFixedBytes = 16;  // The magic, the version and the size of the header.

template <typename Number>
Number number_at(std::span<const std::byte> bytes, size_t at) {
  Number value;
  std::memcpy(&value, bytes.data() + at, sizeof(Number));
  return value;
}

}  // namespace

Result<TraceFile> TraceFile::open(const std::filesystem::path& path, const std::string& name) {
  NMM_ASSIGN(auto mapped, io::MappedFile::open(path));
  NMM_ASSIGN(TraceFile file, parse(mapped->bytes(), name.empty() ? path.string() : name));
  file.mapped_ = std::move(mapped);
  return file;
}

TraceFile TraceFile::derived(std::shared_ptr<const Header> header, std::vector<std::byte> records,
                             const std::string& name) {
  TraceFile file;
  file.name_ = name;
  file.header_ = std::move(header);
  file.derived_ = std::make_shared<const std::vector<std::byte>>(std::move(records));
  file.records_ = *file.derived_;
  return file;
}

Result<TraceFile> TraceFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < kFixedBytes || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return fail("{}: not a kernel trace: expected {} at its begin", name, kMagic);
  }
  const auto version = number_at<uint32_t>(bytes, 8);
  if (version != kVersion) {
    return fail("{}: byte 8: expected version {} of the trace format, found {}", name, kVersion,
                version);
  }
  const uint64_t header_bytes = number_at<uint32_t>(bytes, 12);
  const uint64_t header_end = kFixedBytes + header_bytes;
  if (header_end + sizeof(uint64_t) > bytes.size()) {
    return fail("{}: byte 12: the header has {} bytes, the file {}: cut off?", name, header_bytes,
                bytes.size());
  }
  const auto record_bytes = number_at<uint64_t>(bytes, header_end);
  TraceFile file;
  file.name_ = name;
  file.records_at_ = header_end + sizeof(uint64_t);
  const uint64_t remaining_bytes = bytes.size() - file.records_at_;
  if (record_bytes != remaining_bytes) {
    return fail("{}: byte {}: expected {} bytes of records to the end of the file, found {}: {}",
                name, header_end, record_bytes, remaining_bytes,
                remaining_bytes < record_bytes ? "cut off?" : "something follows");
  }
  if (record_bytes > static_cast<uint64_t>(kMostRecordBytes)) {
    return fail("{}: {} bytes of records; at most {} are simulated", name, record_bytes,
                kMostRecordBytes);
  }
  const std::string_view json(reinterpret_cast<const char*>(bytes.data() + kFixedBytes),
                              header_bytes);
  NMM_ASSIGN(Header header, parse_header(json, name));
  if (header.instructions > kMostInstructions) {
    return fail("{}: {} instructions; at most {} are simulated", name, header.instructions,
                kMostInstructions);
  }
  file.header_ = std::make_shared<const Header>(std::move(header));
  file.records_ = bytes.subspan(file.records_at_);
  return file;
}

}  // namespace neuronmm::trace
