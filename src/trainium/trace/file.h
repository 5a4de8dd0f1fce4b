#pragma once
// Reads a trace file, which holds what a kernel did, instruction by instruction, as python/nki
// records it. docs/reference/nki_trace.md describes the format. A damaged file is an error;
// contents.h checks the records themselves.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/mapped_file.h"
#include "trainium/trace/header.h"

namespace neuronmm::trace {

inline constexpr std::string_view kMagic = "NMMTRACE";
inline constexpr uint32_t kVersion = 1;
// Larger traces are refused. A simulation keeps about 20 bytes per instruction, and a kernel of
// that size would not compile either.
inline constexpr int64_t kMostRecordBytes = int64_t{4} << 30;
inline constexpr int64_t kMostInstructions = 50'000'000;

class TraceFile {
 public:
  // Opens a file. Messages begin with `name`, or with the path if `name` is empty.
  static Result<TraceFile> open(const std::filesystem::path& path, const std::string& name = {});
  // Parses bytes, which must outlive the result. Messages begin with `name`.
  static Result<TraceFile> parse(std::span<const std::byte> bytes, const std::string& name);

  // Makes a trace that a pass has derived from another one. It keeps the other one's name. The
  // records are not checked.
  static TraceFile derived(std::shared_ptr<const Header> header, std::vector<std::byte> records,
                           const std::string& name);

  const Header& header() const { return *header_; }
  const std::shared_ptr<const Header>& shared_header() const { return header_; }
  std::span<const std::byte> records() const { return records_; }
  uint64_t records_at() const { return records_at_; }  // The offset in the file.
  const std::string& name() const { return name_; }

 private:
  std::shared_ptr<const io::MappedFile> mapped_;           // Set by open().
  std::shared_ptr<const std::vector<std::byte>> derived_;  // Set by derived().
  std::shared_ptr<const Header> header_;  // The address stays the same when the file is moved.
  std::span<const std::byte> records_;
  uint64_t records_at_ = 0;
  std::string name_;
};

}  // namespace neuronmm::trace
