#pragma once
// Server-sent events out of bytes that arrive in any pieces, as the HTML standard has them.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace neuronmm::load {

struct ServerEvent {
  std::string type;  // empty: a message
  std::string data;  // its data lines with line ends between them

  bool operator==(const ServerEvent&) const = default;
};

class EventStreamParser {
 public:
  // A stream whose event is larger is no stream of tokens, and must not fill the memory.
  static constexpr size_t kMostEventBytes = size_t{16} << 20;

  // Appends the events that these bytes complete. Lines end with CR, LF or CRLF; comments and
  // fields other than `event` and `data` are passed over. False, once and for all: an event is
  // larger than kMostEventBytes.
  bool push(std::string_view bytes, std::vector<ServerEvent>& events);
  // An event has begun which no empty line has ended: where the stream ends here, it is lost.
  bool inside_event() const;

 private:
  void end_line(std::vector<ServerEvent>& events);
  void take_field(std::string_view line);

  std::string line_;
  ServerEvent event_;
  bool has_data_ = false;
  bool after_cr_ = false;  // a line feed would belong to the line end before it
  bool first_line_ = true, too_large_ = false;
};

}  // namespace neuronmm::load
