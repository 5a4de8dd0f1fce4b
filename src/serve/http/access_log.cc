#include "serve/http/access_log.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <utility>

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include "serve/requests/json_body.h"

namespace neuronmm::serve {
namespace {

// Size of the buffer, in bytes. Records that do not fit are dropped. Assumed.
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
  const bool owned = !path.empty() && path != "-";
  if (path == "-") descriptor = STDOUT_FILENO;
  if (owned) {
    descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor < 0) return fail("{}: cannot be written: {}", path, std::strerror(errno));
  }
  return std::unique_ptr<AccessLog>(new AccessLog(descriptor, owned));
}

AccessLog::AccessLog(int descriptor, bool owned) : descriptor_(descriptor), owned_(owned) {
  if (descriptor_ >= 0) thread_ = std::thread([this] { run(); });
}

AccessLog::~AccessLog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  if (owned_) close(descriptor_);
}

void AccessLog::write(const AccessRecord& record) {
  if (descriptor_ < 0) return;
  std::string line = access_line(record, unix_now());
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() + line.size() > kMaxBufferedBytes) {
      ++dropped_;
      return;
    }
    if (const int64_t dropped = std::exchange(dropped_, 0); dropped > 0)
      waiting_ += dump_json({{"time", iso_time(unix_now())}, {"dropped", dropped}}) + "\n";
    waiting_ += line;
  }
  wake_.notify_one();
}

void AccessLog::run() {
  for (;;) {
    std::string lines;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      lines.swap(waiting_);
    }
    if (!write_out(lines)) return;
  }
}

// Writes `text`. Returns false if the log is closing and its reader takes too long. Each write has
// at most PIPE_BUF bytes, because a pipe that poll() reports as ready takes that many without
// blocking.
bool AccessLog::write_out(std::string_view text) {
  int waits_left = 10;
  while (!text.empty()) {
    pollfd ready = {.fd = descriptor_, .events = POLLOUT, .revents = 0};
    if (poll(&ready, 1, kPollTimeoutMs) <= 0) {
      const std::lock_guard lock(mutex_);
      if (stopping_ && --waits_left <= 0) return false;
      continue;
    }
    const ssize_t written =
        ::write(descriptor_, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    // The lines are lost, but the log goes on: a full disk may get free space again.
    if (written < 0 && errno != EINTR && errno != EAGAIN) return true;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace neuronmm::serve
