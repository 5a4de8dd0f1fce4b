// Checks the timeline that the timing model writes for Perfetto.

#include "trainium/simulator/timeline.h"

#include <filesystem>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "trainium/kernels/xuv.h"
#include "trainium/simulator/timing.h"

namespace neuronmm::simulator {
namespace {

using Json = nlohmann::json;

Json run_and_parse(Timeline& timeline) {
  const kernels::Tiling tiling({{"BM", 2}, {"Br", 2}, {"BN", 1}, {"BK", 2}});
  const auto program = kernels::xuv({300, 512, 256, 600}, tiling, {});
  const auto timing = simulate(program, *find_device("trn1"), {.timeline = &timeline});
  EXPECT_TRUE(timing.ok());
  return Json::parse(timeline.json("xuv", "trn1"));
}

TEST(Timeline, IsJsonWithATrackPerEngineAndQueue) {
  Timeline timeline;
  const Json json = run_and_parse(timeline);
  std::set<std::string> tracks;
  std::map<int, double> last;
  int events = 0;
  for (const Json& event : json["traceEvents"]) {
    if (event["ph"] == "M") {
      if (event["name"] == "thread_name") tracks.insert(event["args"]["name"].get<std::string>());
      continue;
    }
    if (event["ph"] == "C") continue;
    ++events;
    EXPECT_EQ(event["ph"], "X");
    EXPECT_GE(event["dur"].get<double>(), 0);
    EXPECT_FALSE(event["name"].get<std::string>().empty());
    EXPECT_FALSE(event["args"]["buffer"].get<std::string>().empty());
    const int track = event["tid"];
    if (track >= 4) continue;
    // An engine works through its instructions one after the other.
    EXPECT_GE(event["ts"].get<double>(), last[track] - 1e-3);
    last[track] = event["ts"].get<double>() + event["dur"].get<double>();
  }
  EXPECT_EQ(events, timeline.total());
  for (const char* name : {"Tensor", "Vector", "Scalar", "GpSimd", "DMA queue 0", "DMA queue 15"}) {
    EXPECT_TRUE(tracks.contains(name)) << name;
  }
  EXPECT_EQ(json["otherData"]["note"], "complete");
}

TEST(Timeline, CountersAreEventsWithTheirValue) {
  Timeline timeline;
  const int sbuf = timeline.add_counter("SBUF", "bytes per partition", 192 * 1024.0);
  const int other = timeline.add_counter("a \"name\"", "units", 3);
  timeline.count(sbuf, 1000, 3000, 512);
  timeline.count(sbuf, 2000, 4000, 131072);
  timeline.count(other, 500, 1500, 2);
  const Json json = Json::parse(timeline.json("k", "trn2"));
  std::vector<std::pair<double, double>> steps;
  for (const Json& event : json["traceEvents"]) {
    if (event["ph"] != "C" || event["name"] != "SBUF") continue;
    steps.emplace_back(event["ts"], event["args"]["bytes per partition"]);
  }
  // Times are in microseconds.
  const std::vector<std::pair<double, double>> expected = {
      {0, 0}, {1, 512}, {2, 131584}, {3, 131072}, {4, 0}};
  EXPECT_EQ(steps, expected);
  const Json& counters = json["otherData"]["counters"];
  ASSERT_EQ(counters.size(), 2u);
  EXPECT_EQ(counters[0]["capacity"], 192 * 1024.0);
  EXPECT_EQ(counters[0]["most"], 131584);
  EXPECT_EQ(counters[1]["name"], "a \"name\"");
}

// A tile program has transfers, but no trace whose tensors could be counted.
TEST(Timeline, TransfersInFlightAreCounted) {
  Timeline timeline;
  run_and_parse(timeline);
  ASSERT_EQ(timeline.counters().size(), 1u);
  const Counter& flying = timeline.counters()[0];
  EXPECT_EQ(flying.name(), "DMA");
  EXPECT_GT(flying.most(), 1);
  EXPECT_LE(flying.most(), flying.capacity());
}

TEST(Timeline, SaysWhatItLeavesOut) {
  Timeline timeline(10);
  const Json json = run_and_parse(timeline);
  EXPECT_EQ(timeline.kept(), 10);
  EXPECT_GT(timeline.total(), 10);
  EXPECT_EQ(json["otherData"]["events"], timeline.total());
  EXPECT_EQ(json["otherData"]["events_kept"], 10);
  EXPECT_NE(json["otherData"]["note"].get<std::string>().find("only the first 10"),
            std::string::npos);
}

TEST(Timeline, TheSameProgramGivesTheSameTimeline) {
  Timeline one, two;
  run_and_parse(one), run_and_parse(two);
  EXPECT_EQ(one.json("xuv", "trn1"), two.json("xuv", "trn1"));
}

TEST(Timeline, NamesAreQuotedForJson) {
  Timeline timeline;
  timeline.record(timeline.add_track("a \"track\""), "label\n\"x\"", "b\\", 0, 1);
  EXPECT_EQ(Json::parse(timeline.json("p\"", "d"))["traceEvents"].back()["name"], "label\n\"x\"");
}

}  // namespace
}  // namespace neuronmm::simulator
