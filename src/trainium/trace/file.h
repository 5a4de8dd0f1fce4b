#pragma once
// A trace file: what a kernel did, instruction by instruction, as python/nki records it.
// docs/nki_trace.md describes the format.

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
// More is refused: a simulation keeps some 20 bytes per instruction, and a kernel of that size does
// not compile either.
inline constexpr int64_t kMostRecordBytes = int64_t{4} << 30;
inline constexpr int64_t kMostInstructions = 50'000'000;

class TraceFile {
 public:
  // Messages begin with `name`, or with the path if that is empty.
  static Result<TraceFile> open(const std::filesystem::path& path, const std::string& name = {});
  // `bytes` must outlive what is returned. `name` begins every message.
  static Result<TraceFile> parse(std::span<const std::byte> bytes, const std::string& name);

  // A trace that a pass has made of another one, whose name it keeps. The records are not checked.
  static TraceFile made(std::shared_ptr<const Header> header, std::vector<std::byte> records,
                        const std::string& name);

  const Header& header() const { return *header_; }
  const std::shared_ptr<const Header>& shared_header() const { return header_; }
  std::span<const std::byte> records() const { return records_; }
  uint64_t records_at() const { return records_at_; }  // offset in the file
  const std::string& name() const { return name_; }

 private:
  std::shared_ptr<const io::MappedFile> mapped_;        // of an opened one
  std::shared_ptr<const std::vector<std::byte>> made_;  // of a made one
  std::shared_ptr<const Header> header_;  // in one place, however often the file is moved
  std::span<const std::byte> records_;
  uint64_t records_at_ = 0;
  std::string name_;
};

}  // namespace neuronmm::trace
