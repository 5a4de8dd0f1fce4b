#pragma once
// The access log of `neuronmm serve`: one line of JSON per request, also for requests whose
// connection ended before the answer was complete. HttpConnection writes a record when its answer
// ends. A log that is read too slowly loses records instead of delaying answers.

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
  int status = 0;  // 0 if the connection ended before there was a status
  double seconds = 0.0;
  int64_t bytes_in = 0, bytes_out = 0;  // sizes of the bodies
  bool complete = true;                 // false if the client left or was too slow
  // Fields of the request that the server does not know and ignored.
  std::vector<std::string> unknown_fields;
  // Notes about what the answer may contain although the request's schema forbids it.
  std::vector<std::string> schema_notes;
};

// Returns the line of a record with a line feed at its end: {"time": "2026-11-23T15:00:00.123Z",
// "request_id": ..., ...}
std::string access_line(const AccessRecord& record, double unix_seconds);

// Writes records on a thread of its own, so that a slow reader of the log, or none at all, delays
// no request. A record that does not fit in the buffer is dropped. The next line that is written
// has the number of dropped records ("dropped").
class AccessLog {
 public:
  // Opens `path` to append to it. "-" means standard output, and an empty path means no log.
  // Returns an error if the file cannot be written.
  static Result<std::unique_ptr<AccessLog>> open(const std::string& path);
  ~AccessLog();  // tries for at most a second to write the rest
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  void write(const AccessRecord& record);

 private:
  AccessLog(int descriptor, bool owned);
  void run();
  bool write_out(std::string_view text);

  const int descriptor_;  // -1 if there is no log
  const bool owned_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::string waiting_;
  int64_t dropped_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace neuronmm::serve
