#include "base/progress.h"

#include <algorithm>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/printable.h"

namespace neuronmm {
namespace {

constexpr auto kTerminalInterval = std::chrono::milliseconds(100);
constexpr auto kPipeInterval = std::chrono::seconds(5);
constexpr int kBarWidth = 24;

std::string duration_text(double seconds) {
  const std::chrono::seconds left(static_cast<int64_t>(seconds));
  return left < std::chrono::hours(1) ? fmt::format("{:%M:%S}", left)
                                      : fmt::format("{}:{:%M:%S}", left.count() / 3600, left);
}

// Writes to the stream and ignores errors, because a failed progress report is no reason to end the
// work.
template <typename... Args>
void print_to(std::FILE* stream, fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  [[maybe_unused]] const size_t ignored = std::fwrite(text.data(), 1, text.size(), stream);
}

}  // namespace

std::string found_text(int64_t found, int64_t total, std::string_view unit,
                       std::string_view units) {
  return fmt::format("found {} of {} {}; goes on with {} {}", found, total, units, unit, found + 1);
}

Progress::Progress(std::FILE* stream)
    : stream_(stream), terminal_(stream != nullptr && isatty(fileno(stream)) == 1) {}
Progress::~Progress() { finish(); }

void Progress::expect(std::vector<ExpectedTask> tasks) { estimate_.expect(std::move(tasks)); }

void Progress::start(std::string label, int64_t total, int64_t done_before) {
  finish();
  label_ = std::move(label);
  total_ = total;
  done_ = done_before_ = done_before;
  estimate_.begin(label_, share_done());
  running_ = true;
  started_ = last_drawn_ = Clock::now();
  if (terminal_) draw({});
}

// A task without steps counts as done.
double Progress::share_done() const {
  return total_ > 0 ? static_cast<double>(done_) / static_cast<double>(total_) : 1.0;
}

// Returns the estimate in words. It is that of the whole command if its tasks are known. Steps of
// an earlier run took no time in this one.
std::string Progress::time_left() const {
  const bool whole = estimate_.expects_tasks();
  if (!whole && done_ >= total_) return {};
  const std::chrono::duration<double> elapsed = Clock::now() - started_;
  const auto left = estimate_.seconds_left(elapsed.count(), share_done());
  if (!left) return {};
  return fmt::format(", {} left{}", duration_text(*left), whole ? " in all" : "");
}

void Progress::update(int64_t done, std::string_view note) {
  const bool is_drawn = drawn_ && done == done_;
  done_ = done;
  if (stream_ == nullptr) return;
  const Clock::time_point now = Clock::now();
  const auto interval =
      terminal_ ? Clock::duration(kTerminalInterval) : Clock::duration(kPipeInterval);
  // The last update is always drawn, so that a finished bar is complete, but only once.
  if (done < total_ ? now - last_drawn_ < interval : is_drawn) return;
  last_drawn_ = now;
  draw(note);
}

void Progress::draw(std::string_view note) {
  if (stream_ == nullptr) return;
  const std::string left = time_left();
  // On a terminal the bar is one line that is drawn over itself. In a file or a pipe every update
  // is a line, at most one every five seconds.
  if (terminal_) {
    const int filled = std::clamp(static_cast<int>(share_done() * kBarWidth), 0, kBarWidth);
    print_to(stream_, "\r\033[K{} [{}{}] {}/{}{}  {}", label_, std::string(filled, '#'),
             std::string(kBarWidth - filled, '.'), done_, total_, left, printable(note));
  } else {
    print_to(stream_, "{} {}/{}{}{}{}\n", label_, done_, total_, left, note.empty() ? "" : "  ",
             printable(note));
  }
  std::fflush(stream_);
  drawn_ = true;
}

void Progress::finish() {
  if (stream_ != nullptr && terminal_ && drawn_) print_to(stream_, "\n");
  drawn_ = false;
  if (running_) {
    const std::chrono::duration<double> elapsed = Clock::now() - started_;
    estimate_.end(elapsed.count(), share_done());
  }
  running_ = false;
  total_ = 0;
}

// Erases the bar, prints the line, and draws the bar again.
void Progress::print(std::string_view line) {
  if (stream_ == nullptr) return;
  if (terminal_ && drawn_) print_to(stream_, "\r\033[K");
  print_to(stream_, "{}\n", printable(line));
  if (terminal_ && drawn_) draw({});
}

}  // namespace neuronmm
