#pragma once
// Records a timeline as Chrome trace events (JSON), which ui.perfetto.dev opens. There is one track
// per engine and per DMA queue. Every instruction is an event with its label and the buffer that it
// writes. Counters show quantities such as the transfers in flight.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trainium/simulator/counter.h"
#include "trainium/simulator/utilization.h"

namespace neuronmm::simulator {

class Timeline {
 public:
  // Keeps the first `limit` events. A large program has millions of events, and Perfetto loads
  // about 10^5 of them comfortably. The file's metadata says how many events there were.
  explicit Timeline(int64_t limit = 200'000) : limit_(limit) {}

  int add_track(std::string name);  // Returns the track's number, counted from 0.
  void record(int track, const std::string& label, const std::string& buffer, double begin_ns,
              double end_ns, int64_t bytes = 0) {
    utilization_.add(track, begin_ns, end_ns);
    if (++total_ > limit_) return;
    events_.push_back({track, intern(label), intern(buffer), begin_ns, end_ns, bytes});
  }

  // Adds a counter and returns its number, counted from 0. counter.h describes the arguments.
  int add_counter(std::string name, std::string unit, double capacity);
  void count(int counter, double begin_ns, double end_ns, double amount) {
    counters_[static_cast<size_t>(counter)].add(begin_ns, end_ns, amount);
  }

  int64_t total() const { return total_; }
  int64_t kept() const { return static_cast<int64_t>(events_.size()); }
  std::string json(std::string_view program, std::string_view device) const;

  const std::vector<std::string>& tracks() const { return tracks_; }
  const Utilization& utilization() const { return utilization_; }  // Covers all events.
  const std::vector<Counter>& counters() const { return counters_; }

 private:
  struct Event {
    int track, label, buffer;  // The latter two are indices into quoted_.
    double begin_ns, end_ns;
    int64_t bytes;
  };
  int intern(const std::string& text);
  void append_counters(std::string& text) const;

  int64_t limit_, total_ = 0;
  Utilization utilization_;
  std::vector<std::string> tracks_;
  std::vector<Counter> counters_;
  std::vector<std::string> quoted_;  // Labels and names as JSON strings; each is stored once.
  std::unordered_map<std::string, int> ids_;
  std::vector<Event> events_;
};

}  // namespace neuronmm::simulator
