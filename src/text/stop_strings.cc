#include "text/stop_strings.h"

#include <algorithm>
#include <utility>

#include "base/result.h"

namespace neuronmm::text {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_) NMM_CHECK(!stop.empty());
}

std::string StopStrings::push(std::string_view piece) {
  if (found_) return "";
  pending_ += piece;
  const size_t stop = find_stop();
  found_ = stop != std::string::npos;
  std::string certain = pending_.substr(0, found_ ? stop : begin_of_possible_stop());
  pending_.erase(0, found_ ? pending_.size() : certain.size());
  return certain;
}

std::string StopStrings::finish() { return std::exchange(pending_, std::string()); }

// Text that was returned before cannot be a part of a stop, so that the search sees only pending_.
size_t StopStrings::find_stop() {
  size_t begin = std::string::npos, end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t found = pending_.find(stop);
    if (found == std::string::npos) continue;
    const size_t found_end = found + stop.size();
    if (found_end < end || (found_end == end && found < begin)) {
      begin = found;
      end = found_end;
      stop_ = stop;
    }
  }
  return begin;
}

// Returns where the longest suffix of the text begins that is a proper prefix of a stop.
size_t StopStrings::begin_of_possible_stop() const {
  size_t begin = pending_.size();
  for (const std::string& stop : stops_) {
    const size_t longest = std::min(pending_.size(), stop.size() - 1);
    for (size_t length = longest; length > pending_.size() - begin; --length) {
      if (pending_.ends_with(std::string_view(stop).substr(0, length)))
        begin = pending_.size() - length;
    }
  }
  return begin;
}

}  // namespace neuronmm::text
