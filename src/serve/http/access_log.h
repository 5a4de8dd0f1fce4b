#pragma once
// One line of JSON for every request that was answered, or broke off.

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"

namespace neuronmm::serve {

struct AccessRecord {
  std::string client, request_id, method, path;
  int status = 0;  // 0: the connection ended before there was one
  double seconds = 0.0;
  int64_t bytes_in = 0, bytes_out = 0;      // of bodies
  bool complete = true;                     // false: the client went away, or was too slow
  std::vector<std::string> unknown_fields;  // of the request, which were left out
  std::vector<std::string> schema_notes;    // what the answer may be beyond the request's schema
};

// {"time": "2026-11-23T15:00:00.123Z", "request_id": ..., ...} with a line end.
std::string access_line(const AccessRecord& record, double unix_seconds);

// Writes on a thread of its own: whoever reads the log slowly, or not at all, delays nobody. What
// finds no room is left out, and the next line says how many were ("dropped").
class AccessLog {
 public:
  // "-": standard output; empty: none. Else the end of that file.
  static Result<std::unique_ptr<AccessLog>> open(const std::string& path);
  ~AccessLog();  // writes what is left, for a second at most
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  void write(const AccessRecord& record);

 private:
  AccessLog(int descriptor, bool owned);
  void run();
  bool write_out(std::string_view text);

  const int descriptor_;  // -1: none
  const bool owned_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::string waiting_;
  int64_t dropped_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace neuronmm::serve
