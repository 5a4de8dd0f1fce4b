#pragma once
// The access log of `neuronmm serve`: one line of JSON per request, also for requests whose
// connection ended before the answer was complete. HttpConnection writes a record when its answer
// ends. A log that is read too slowly, or whose disk is full, loses records instead of delaying
// answers. Lost records are counted.

#include <atomic>
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

// The metric that counts lost records (GET /metrics).
inline constexpr const char* kLostRecordsMetric = "http_access_log_lost_lines_total";

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
// no request. A record is lost if it does not fit in the buffer or cannot be written. The next line
// that is written has the number of lost records ("dropped"). The first failure is passed to
// notify() (base/notices.h).
class AccessLog {
 public:
  // Opens `path` to append to it. "-" means standard output, and an empty path means no log.
  // Returns an error if the file cannot be written.
  static Result<std::unique_ptr<AccessLog>> open(const std::string& path);
  ~AccessLog();  // tries for at most a second to write the rest
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  void write(const AccessRecord& record);
  // Opens the path again, so that another program can rename the file and go on with a new one
  // (log rotation). Records that were passed to write() before go to the old file. The log goes on
  // with the old file if the path cannot be opened. Nothing happens without a file.
  void reopen();
  // Returns how many records were lost so far.
  int64_t lost() const { return lost_; }

 private:
  // The records that the writing thread takes over from the threads that call write().
  struct Batch {
    std::string lines;
    int64_t dropped = 0;  // records after `lines` that did not fit
    bool reopens = false, ends = false;
  };
  AccessLog(std::string path, int descriptor);
  void run();
  Batch next_batch();
  void write_batch(const Batch& batch);
  bool write_head();
  size_t write_out(std::string_view text);
  void report(int error);
  void reopen_file();
  bool owns_file() const { return !path_.empty() && path_ != "-"; }

  const std::string path_;
  std::mutex mutex_;
  std::condition_variable wake_;
  Batch waiting_;  // protected by `mutex_`
  std::atomic<int64_t> lost_ = 0;
  // The following members belong to the writing thread.
  int descriptor_;          // -1 if there is no log
  int64_t unreported_ = 0;  // lost records that no line of the log mentions yet
  bool in_line_ = false;    // the file ends within a line
  std::thread thread_;
};

}  // namespace neuronmm::serve
