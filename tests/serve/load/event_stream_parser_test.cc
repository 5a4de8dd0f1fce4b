#include "serve/load/event_stream_parser.h"

#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace neuronmm::load {
namespace {

using testing::ElementsAre;
using Events = std::vector<ServerEvent>;

Events parse(std::string_view text) {
  EventStreamParser parser;
  Events events;
  EXPECT_TRUE(parser.push(text, events));
  return events;
}

ServerEvent message(std::string data) { return {"", std::move(data)}; }

TEST(EventStreamParser, LinesEndInThreeWays) {
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    const std::string text = "data: a" + end + end + "data: b" + end + "data: c" + end + end;
    EXPECT_THAT(parse(text), ElementsAre(message("a"), message("b\nc")))
        << fmt::format("{:?}", end);
  }
}

// The examples of the HTML standard, section 9.2.6.
TEST(EventStreamParser, TheExamplesOfTheStandard) {
  EXPECT_THAT(parse("data: YHOO\ndata: +2\ndata: 10\n\n"), ElementsAre(message("YHOO\n+2\n10")));
  EXPECT_THAT(
      parse(": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\n"
            "data:  third event\n\n"),
      ElementsAre(message("first event"), message("second event"), message(" third event")));
  EXPECT_THAT(parse("data\n\ndata\ndata\n\ndata:"), ElementsAre(message(""), message("\n")));
  EXPECT_THAT(parse("data:test\n\ndata: test\n\n"), ElementsAre(message("test"), message("test")));
  EXPECT_THAT(
      parse("event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\ndata: x\n\n"),
      ElementsAre(ServerEvent{"add", "73857293"}, ServerEvent{"remove", "2153"}, message("x")));
}

TEST(EventStreamParser, TypesWithoutDataAreForgotten) {
  EXPECT_THAT(parse("event: add\n\ndata: x\n\n"), ElementsAre(message("x")));
}

TEST(EventStreamParser, AByteOrderMarkMayBeginTheStreamOnly) {
  EXPECT_THAT(parse("\xEF\xBB\xBF"
                    "data: a\n\n\xEF\xBB\xBF"
                    "data: b\n\ndata: c\n\n"),
              ElementsAre(message("a"), message("c")));
}

TEST(EventStreamParser, AnUnfinishedEventIsNone) {
  EventStreamParser parser;
  Events events;
  parser.push("data: a\n\ndata: b\n", events);
  EXPECT_THAT(events, ElementsAre(message("a")));
  EXPECT_TRUE(parser.inside_event());
  parser.push("\n", events);
  EXPECT_FALSE(parser.inside_event());
}

TEST(EventStreamParser, MemoryHasALimit) {
  const std::string mebibyte(size_t{1} << 20, 'x');
  for (const std::string begin : {"data: ", ": comment", "unknown"}) {
    EventStreamParser parser;
    Events events;
    parser.push(begin, events);
    int pushed = 0;
    while (pushed < 100 && parser.push(mebibyte, events)) ++pushed;
    EXPECT_EQ(pushed, 15) << begin;
    EXPECT_FALSE(parser.push("\n\ndata: x\n\n", events));
    EXPECT_TRUE(events.empty());
  }
  EventStreamParser parser;  // of many lines, too
  Events events;
  const std::string line = "data: " + mebibyte + "\n";
  int pushed = 0;
  while (pushed < 100 && parser.push(line, events)) ++pushed;
  EXPECT_LT(pushed, 17);
}

// A stream out of all that matters, and what it must come to, written down beside it.
struct RandomStream {
  std::string bytes;
  Events events;
};

RandomStream random_stream(std::mt19937& random) {
  const std::vector<std::string> ends = {"\n", "\r\n", "\r"};
  const std::vector<std::string> texts = {"",
                                          "a",
                                          " b",
                                          "[DONE]",
                                          "\xC3\xA4\xE2\x82\xAC",
                                          "\xF0\x9F\x98\x80",
                                          "{\"x\": \":\"}",
                                          ": no comment"};
  const auto draw = [&random](const auto& list) -> const auto& {
    return list[std::uniform_int_distribution<size_t>(0, list.size() - 1)(random)];
  };
  RandomStream stream;
  const auto line = [&](const std::string& text) { stream.bytes += text + draw(ends); };
  const int count = std::uniform_int_distribution(1, 6)(random);
  for (int i = 0; i < count; ++i) {
    ServerEvent event;
    const int lines = std::uniform_int_distribution(1, 3)(random);
    for (int j = 0; j < lines; ++j) {
      if (random() % 4 == 0) line(": " + draw(texts));
      if (random() % 4 == 0) line("id: " + draw(texts));
      if (random() % 4 == 0) line("event: " + (event.type = "t" + std::to_string(random() % 9)));
      const std::string data = draw(texts);
      line("data: " + data);
      event.data += (j == 0 ? "" : "\n") + data;
    }
    // A line feed behind the carriage return of the line before would be a part of its end.
    if (stream.bytes.ends_with('\r'))
      stream.bytes += "\r";
    else
      line("");
    stream.events.push_back(event);
  }
  return stream;
}

TEST(EventStreamParser, BytesMayBeCutAnywhere) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    RandomStream stream = random_stream(random);
    EXPECT_EQ(parse(stream.bytes), stream.events) << fmt::format("{:?}", stream.bytes);
    EventStreamParser parser;
    Events events;
    for (std::string_view rest = stream.bytes; !rest.empty();) {
      const size_t piece = std::uniform_int_distribution<size_t>(0, 7)(random);
      ASSERT_TRUE(parser.push(rest.substr(0, piece), events));
      rest.remove_prefix(std::min(piece, rest.size()));
    }
    ASSERT_EQ(events, stream.events) << fmt::format("{:?}", stream.bytes);
  }
}

}  // namespace
}  // namespace neuronmm::load
