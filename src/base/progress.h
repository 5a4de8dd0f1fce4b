#pragma once
// Progress of long work: a bar on a terminal, a line now and then in a pipe, nothing when silent.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace neuronmm {

class Progress {
 public:
  Progress() = default;                  // silent
  explicit Progress(std::FILE* stream);  // null: silent
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Starts a task of `total` steps, of which an earlier run has done some; ends the one before.
  void start(std::string label, int64_t total, int64_t done_before = 0);
  // `done` of total; `note` says what was just finished ("layer 3 gate: rank 256").
  void update(int64_t done, std::string_view note = {});
  // Ends the task and leaves its last line on the screen.
  void finish();
  // A line of text above the bar (or just a line).
  void print(std::string_view line);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(std::string_view note);

  std::FILE* stream_ = nullptr;
  bool terminal_ = false;
  bool drawn_ = false;
  std::string label_;
  int64_t total_ = 0, done_ = 0, done_before_ = 0;
  Clock::time_point started_, last_drawn_;
};

}  // namespace neuronmm
