#include "serve/http/access_log.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include "base/notices.h"
#include "serve/requests/json_body.h"

namespace neuronmm::serve {
namespace {

// Size of the buffer, in bytes. Records that do not fit are lost. Assumed.
constexpr size_t kMaxBufferedBytes = size_t{1} << 20;
// Time that the writing thread waits for the reader before it checks whether the log is closing.
// Assumed.
constexpr int kPollTimeoutMs = 100;

std::string iso_time(double unix_seconds) {
  const auto whole = static_cast<time_t>(std::floor(unix_seconds));
  std::tm parts = {};
  gmtime_r(&whole, &parts);
  const double rest = std::floor((unix_seconds - static_cast<double>(whole)) * 1000.0);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     static_cast<int>(rest));
}

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string dropped_line(int64_t records) {
  return dump_json({{"time", iso_time(unix_now())}, {"dropped", records}}) + "\n";
}

// Returns a descriptor, or -1 with errno set.
int open_to_append(const std::string& path, int more_flags = 0) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | more_flags, 0644);
}

}  // namespace

std::string access_line(const AccessRecord& record, double unix_seconds) {
  Json line = {{"time", iso_time(unix_seconds)},
               {"request_id", record.request_id},
               {"client", record.client},
               {"method", record.method},
               {"path", record.path},
               {"status", record.status},
               {"seconds", std::round(record.seconds * 1e6) / 1e6},
               {"bytes_in", record.bytes_in},
               {"bytes_out", record.bytes_out},
               {"complete", record.complete}};
  if (!record.unknown_fields.empty()) line["unknown_fields"] = record.unknown_fields;
  if (!record.schema_notes.empty()) line["schema_notes"] = record.schema_notes;
  return dump_json(line) + "\n";
}

Result<std::unique_ptr<AccessLog>> AccessLog::open(const std::string& path) {
  int descriptor = -1;
  if (path == "-") {
    descriptor = STDOUT_FILENO;
  } else if (!path.empty()) {
    descriptor = open_to_append(path);
    if (descriptor < 0) return fail("{}: cannot be written: {}", path, std::strerror(errno));
  }
  return std::unique_ptr<AccessLog>(new AccessLog(path, descriptor));
}

AccessLog::AccessLog(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {
  if (descriptor_ >= 0) thread_ = std::thread([this] { run(); });
}

AccessLog::~AccessLog() {
  {
    const std::lock_guard lock(mutex_);
    waiting_.ends = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  if (owns_file()) close(descriptor_);
}

void AccessLog::write(const AccessRecord& record) {
  if (path_.empty()) return;
  const std::string line = access_line(record, unix_now());
  {
    const std::lock_guard lock(mutex_);
    const bool fits = waiting_.lines.size() + line.size() <= kMaxBufferedBytes;
    if (fits && waiting_.dropped == 0) {
      waiting_.lines += line;
    } else {
      ++waiting_.dropped;
      ++lost_;
    }
  }
  wake_.notify_one();
}

void AccessLog::reopen() {
  if (!owns_file()) return;
  {
    const std::lock_guard lock(mutex_);
    waiting_.reopens = true;
  }
  wake_.notify_one();
}

AccessLog::Batch AccessLog::next_batch() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] {
    return waiting_.ends || waiting_.reopens || !waiting_.lines.empty() || waiting_.dropped > 0;
  });
  Batch batch = std::exchange(waiting_, {});
  waiting_.ends = batch.ends;
  return batch;
}

void AccessLog::run() {
  for (;;) {
    const Batch batch = next_batch();
    write_batch(batch);
    if (batch.reopens) reopen_file();
    if (batch.ends) return;
  }
}

// Counts the records that are lost with the part of the batch that cannot be written.
void AccessLog::write_batch(const Batch& batch) {
  const size_t written = write_head() ? write_out(batch.lines) : 0;
  const auto unwritten = std::ranges::count(std::string_view(batch.lines).substr(written), '\n');
  lost_ += unwritten;
  unreported_ += unwritten + batch.dropped;
}

// Ends a line that was cut off, and writes how many records were lost before. Returns false if that
// fails.
bool AccessLog::write_head() try {
  std::string head = in_line_ ? "\n" : "";
  if (unreported_ > 0) head += dropped_line(unreported_);
  if (write_out(head) < head.size()) return false;
  unreported_ = 0;
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

// Writes `text` and returns how many of its bytes were written: fewer than it has after an error,
// or if the log is closing and its reader takes too long. Each write has at most PIPE_BUF bytes,
// because a pipe that poll() reports as ready takes that many without blocking.
size_t AccessLog::write_out(std::string_view text) {
  int waits_left = 10;
  size_t at = 0;
  while (at < text.size()) {
    pollfd ready = {.fd = descriptor_, .events = POLLOUT, .revents = 0};
    if (poll(&ready, 1, kPollTimeoutMs) <= 0) {
      const std::lock_guard lock(mutex_);
      if (waiting_.ends && --waits_left <= 0) return at;
      continue;
    }
    const ssize_t written =
        ::write(descriptor_, text.data() + at, std::min<size_t>(text.size() - at, PIPE_BUF));
    if (written > 0) {
      at += static_cast<size_t>(written);
      in_line_ = text[at - 1] != '\n';
    }
    // The rest is lost, but the log goes on: a full disk may get free space again.
    if (written == 0 || (written < 0 && errno != EINTR && errno != EAGAIN)) {
      report(written == 0 ? ENOSPC : errno);
      return at;
    }
  }
  return at;
}

void AccessLog::report(int error) try {
  notify(fmt::format(
      "{}: the access log cannot be written: {}; the server goes on, and counts the lines that are "
      "lost in the metric {}",
      path_ == "-" ? "standard output" : path_, std::strerror(error), kLostRecordsMetric));
} catch (const std::bad_alloc&) {  // only the message is lost
}

void AccessLog::reopen_file() try {
  // A named pipe without a reader must not stop the log.
  const int descriptor = open_to_append(path_, O_NONBLOCK);
  if (descriptor < 0) {
    notify(fmt::format("{}: the access log cannot be opened again: {}; it goes on in the old file",
                       path_, std::strerror(errno)));
    return;
  }
  close(descriptor_);
  descriptor_ = descriptor;
  in_line_ = false;
} catch (const std::bad_alloc&) {  // only the message is lost
}

}  // namespace neuronmm::serve
