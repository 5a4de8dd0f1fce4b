#include "serve/load/event_stream_parser.h"

#include <utility>

namespace neuronmm::load {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

bool EventStreamParser::push(std::string_view bytes, std::vector<ServerEvent>& events) {
  while (!bytes.empty() && !too_large_) {
    if (std::exchange(after_cr_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const size_t length = bytes.find_first_of("\r\n");
    line_.append(bytes.substr(0, length));
    too_large_ = line_.size() + event_.data.size() > kMostEventBytes;
    if (length == std::string_view::npos) break;
    after_cr_ = bytes[length] == '\r';
    bytes.remove_prefix(length + 1);
    if (!too_large_) end_line(events);
  }
  return !too_large_;
}

bool EventStreamParser::inside_event() const { return has_data_ || !line_.empty(); }

void EventStreamParser::end_line(std::vector<ServerEvent>& events) {
  std::string_view line = line_;
  if (std::exchange(first_line_, false) && line.starts_with(kByteOrderMark))
    line.remove_prefix(kByteOrderMark.size());
  if (!line.empty()) {
    take_field(line);
  } else {
    // An event without data is none.
    if (std::exchange(has_data_, false)) events.push_back(std::move(event_));
    event_ = {};
  }
  line_.clear();
}

void EventStreamParser::take_field(std::string_view line) {
  const size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  std::string_view value;
  if (colon != std::string_view::npos) value = line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "event") event_.type = value;
  if (name != "data") return;  // a comment has no name
  if (std::exchange(has_data_, true)) event_.data += '\n';
  event_.data += value;
}

}  // namespace neuronmm::load
