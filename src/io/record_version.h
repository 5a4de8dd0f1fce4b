#pragma once
// The format version of the entries that neuronmm adds to config.json: "neuronmm_compression" and
// "neuronmm_quantization". A key that older readers may ignore does not change the version. An
// entry without a version is of version 1, because programs before 1.0 wrote none.

#include <cstdint>

#include <fmt/format.h>

#include "base/result.h"
#include "io/json_file.h"

namespace neuronmm::io {

inline constexpr const char* kRecordVersionKey = "format_version";
inline constexpr int64_t kRecordVersion = 1;

// Refuses an entry of a later version, in which a key may mean something else.
inline Status check_record_version(const JsonFields& record) {
  NMM_ASSIGN(const auto version, record.integer(kRecordVersionKey));
  if (!version || *version == kRecordVersion) return {};
  return record.wrong(
      kRecordVersionKey,
      fmt::format("{}, which this program reads; use a newer neuronmm", kRecordVersion));
}

}  // namespace neuronmm::io
