#pragma once
// Shows the progress of long work: a bar on a terminal, a line every few seconds in a pipe, and
// nothing if it is silent. Libraries get a Progress from the program that calls them. An object
// serves one thread at a time. Output that cannot be written is dropped.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/time_estimate.h"

namespace neuronmm {

// Returns what a run found of an interrupted one, such as "found 12 of 30 layers; goes on with
// layer 13". Units are counted from 1.
std::string found_text(int64_t found, int64_t total, std::string_view unit, std::string_view units);

// The progress of one task at a time.
class Progress {
 public:
  Progress() = default;                  // silent
  explicit Progress(std::FILE* stream);  // silent if null
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Declares the tasks of a whole command in their order, with rough shares of its time. From then
  // on one estimate is shown, which is that of the whole command. A command inside another one may
  // call this, too, without effect: the outer command has declared all tasks.
  void expect(std::vector<ExpectedTask> tasks);
  // Starts a task of `total` steps, of which an earlier run has done `done_before`. Ends the
  // previous task.
  void start(std::string label, int64_t total, int64_t done_before = 0);
  // Reports that `done` of all steps are done. `note` says what was just finished ("layer 3 gate:
  // rank 256").
  void update(int64_t done, std::string_view note = {});
  // Ends the task. Its last line stays on the screen.
  void finish();
  // Prints a line of text, above the bar if there is one.
  void print(std::string_view line);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(std::string_view note);
  double share_done() const;
  std::string time_left() const;

  std::FILE* stream_ = nullptr;
  bool terminal_ = false;
  bool drawn_ = false;
  std::string label_;
  bool running_ = false;
  int64_t total_ = 0, done_ = 0, done_before_ = 0;
  TimeEstimate estimate_;
  Clock::time_point started_, last_drawn_;
};

}  // namespace neuronmm
