// Reads any bytes as a stream of events. The events must not depend on how the stream is cut (the
// first byte chooses a length), and a plain reader of whole lines must find the same events. Chunks
// of answers are read from the events, too.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serve/load/completion_api.h"
#include "serve/load/event_stream_parser.h"

namespace {

using neuronmm::load::AnswerChunk;
using neuronmm::load::EventStreamParser;
using neuronmm::load::ServerEvent;

std::vector<ServerEvent> parse(std::string_view text, size_t piece) {
  EventStreamParser parser;
  std::vector<ServerEvent> events;
  for (size_t at = 0; at < text.size(); at += piece)
    NMM_CHECK(parser.push(text.substr(at, piece), events));
  return events;
}

// Replaces every line end by a line feed.
std::string with_line_feeds(std::string_view text) {
  std::string lines;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n' && i > 0 && text[i - 1] == '\r') continue;
    lines += text[i] == '\r' ? '\n' : text[i];
  }
  return lines;
}

// Returns the data of every event, found in the text as a whole.
std::vector<std::string> plain_data(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const std::string lines = with_line_feeds(text);
  std::vector<std::string> found, open;
  for (size_t at = 0, end; (end = lines.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = lines.substr(at, end - at);
    if (line == "data" || line.starts_with("data:")) {
      const bool has_space = line.starts_with("data: ");
      open.push_back(line.size() <= 5 ? "" : line.substr(has_space ? 6 : 5));
    }
    if (!line.empty() || open.empty()) continue;
    std::string data = open.front();
    for (size_t i = 1; i < open.size(); ++i) data += "\n" + open[i];
    found.push_back(data);
    open.clear();
  }
  return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = parse(text, text.size() + 1);
  NMM_CHECK(parse(text, 1) == whole);
  NMM_CHECK(parse(text, size_t{data[0]} + 1) == whole);
  const auto expected = plain_data(text);
  NMM_CHECK(std::ranges::equal(whole, expected, {}, &ServerEvent::data));
  for (const ServerEvent& event : whole) {
    const AnswerChunk chunk = neuronmm::load::read_chunk(event.data);
    NMM_CHECK(!chunk.completion_tokens || *chunk.completion_tokens >= 0);
    NMM_CHECK(chunk.kind != AnswerChunk::Kind::kToken || chunk.has_choice);
  }
  (void)neuronmm::load::error_message(text);
  (void)neuronmm::load::first_model(text);
  return 0;
}
