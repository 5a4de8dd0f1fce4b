#pragma once
// The format version of all JSON reports, which ReportWriter (report_writer.h) writes under
// kReportVersionKey. New keys do not change it. docs/reference/compatibility.md has the rules.

#include <cstdint>

namespace neuronmm::apps {

inline constexpr const char* kReportVersionKey = "format_version";
inline constexpr int64_t kReportVersion = 1;

}  // namespace neuronmm::apps
