// What is computed of times: order statistics, arrivals, the report; and where a server is.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "serve/load/arrivals.h"
#include "serve/load/load_report.h"
#include "serve/load/server_url.h"

namespace neuronmm::load {
namespace {

// NumPy 1.24: mean, median, std, percentile(., 90), percentile(., 99) of this list.
TEST(Statistics, AreNumPys) {
  const Summary summary = summarize({3.5, 1.25, 9.0, 2.0, 2.0, 7.75, 4.5});
  EXPECT_EQ(summary.count, 7);
  EXPECT_DOUBLE_EQ(summary.mean, 4.285714285714286);
  EXPECT_DOUBLE_EQ(summary.median, 3.5);
  EXPECT_DOUBLE_EQ(summary.deviation, 2.7916603208375435);
  EXPECT_DOUBLE_EQ(summary.p90, 8.25);
  EXPECT_DOUBLE_EQ(summary.p99, 8.925);
}

TEST(Statistics, OfNoneAndOfOne) {
  EXPECT_EQ(summarize({}).count, 0);
  EXPECT_EQ(summarize({}).p99, 0.0);
  const Summary one = summarize({4.0});
  EXPECT_EQ(one.median, 4.0);
  EXPECT_EQ(one.p99, 4.0);
  EXPECT_EQ(one.deviation, 0.0);
}

// The share of the way between two neighbours, without floor or lerp.
TEST(Statistics, PercentilesLieBetweenNeighbours) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> values(1 + random() % 50);
    for (double& value : values) value = static_cast<double>(random() % 1000);
    std::ranges::sort(values);
    for (const size_t percent : {0, 1, 50, 90, 99, 100}) {
      const size_t hundredths = percent * (values.size() - 1);
      const double low = values[hundredths / 100];
      const double high = values[std::min(hundredths / 100 + 1, values.size() - 1)];
      const double expected = low + (high - low) * static_cast<double>(hundredths % 100) / 100.0;
      EXPECT_NEAR(percentile(values, static_cast<double>(percent)), expected, 1e-9);
    }
  }
}

TEST(Arrivals, WithoutARateAllComeAtOnce) { EXPECT_THAT(arrival_times(5, {}), testing::Each(0.0)); }

// Mean 1 / rate and deviation mean / sqrt(burstiness) of a gamma distribution; the bounds are six
// deviations of the estimates.
TEST(Arrivals, HaveTheirRateAndBurstiness) {
  constexpr int64_t kCount = 20001;
  for (const double burstiness : {0.25, 1.0, 4.0}) {
    const auto times = arrival_times(kCount, {.rate = 50.0, .burstiness = burstiness, .seed = 3});
    ASSERT_EQ(times.front(), 0.0);
    ASSERT_TRUE(std::ranges::is_sorted(times));
    std::vector<double> gaps(times.size());
    std::adjacent_difference(times.begin(), times.end(), gaps.begin());
    gaps.erase(gaps.begin());
    const Summary summary = summarize(gaps);
    const double deviation = 0.02 / std::sqrt(burstiness);
    EXPECT_NEAR(summary.mean, 0.02, 6.0 * deviation / std::sqrt(kCount));
    const double kurtosis = 3.0 + 6.0 / burstiness;
    const double error = deviation * std::sqrt((kurtosis - 1.0) / (4.0 * kCount));
    EXPECT_NEAR(summary.deviation, deviation, 6.0 * error) << burstiness;
  }
}

TEST(Arrivals, AreThoseOfTheirSeed) {
  const ArrivalSettings settings = {.rate = 2.0, .burstiness = 1.0, .seed = 9};
  EXPECT_EQ(arrival_times(50, settings), arrival_times(50, settings));
  EXPECT_NE(arrival_times(50, settings), arrival_times(50, {.rate = 2.0, .seed = 10}));
}

RequestTiming timing(double ttft, double latency, int64_t output_tokens) {
  return {.ttft = ttft,
          .latency = latency,
          .gaps = {},
          .prompt_tokens = 10,
          .output_tokens = output_tokens};
}

TEST(LoadReport, CountsAndDivides) {
  LoadMeasurement measurement;
  measurement.completed = {timing(0.1, 1.1, 11), timing(0.3, 0.3, 1), timing(0.2, 2.2, 5)};
  measurement.completed[0].gaps = {0.01, 0.03};
  measurement.completed[2].gaps = {0.05};
  measurement.errors = {{"status 429", {2, "full"}}, {"timeout", {1, "late"}}};
  measurement.duration = 4.0;
  measurement.peak_concurrency = 2;
  const LoadReport report = load_report(measurement, {.ttft = 250.0, .tpot = 200.0, .e2el = {}});
  EXPECT_EQ(report.completed, 3);
  EXPECT_EQ(report.failed, 3);
  EXPECT_DOUBLE_EQ(report.request_throughput, 0.75);
  EXPECT_DOUBLE_EQ(report.output_throughput, 17.0 / 4.0);
  EXPECT_DOUBLE_EQ(report.total_throughput, 47.0 / 4.0);
  EXPECT_DOUBLE_EQ(report.ttft.mean, 200.0);
  EXPECT_EQ(report.tpot.count, 2);  // the answer of one token has none
  EXPECT_DOUBLE_EQ(report.tpot.mean, (100.0 + 500.0) / 2.0);
  EXPECT_DOUBLE_EQ(report.itl.median, 30.0);
  EXPECT_DOUBLE_EQ(report.e2el.mean, 1200.0);
  EXPECT_DOUBLE_EQ(*report.goodput, 0.25);  // the second is late at first, the third then
  const auto json = to_json(report, measurement);
  EXPECT_EQ(json["p99_itl_ms"], report.itl.p99);
  EXPECT_EQ(json["request_goodput"], 0.25);
  EXPECT_EQ(json["errors"]["status 429"]["count"], 2);
  EXPECT_EQ(json["requests"].size(), 3u);
  EXPECT_EQ(json["requests"][1]["ttft_ms"], 300.0);
}

TEST(LoadReport, OfNothing) {
  const LoadReport report = load_report({}, {});
  EXPECT_EQ(report.completed, 0);
  EXPECT_EQ(report.output_throughput, 0.0);
  EXPECT_FALSE(report.goodput);
}

TEST(ServiceObjectives, AreReadByName) {
  ServiceObjectives objectives;
  EXPECT_FALSE(objectives.any());
  EXPECT_TRUE(add_objective("ttft:500", objectives).ok());
  EXPECT_TRUE(add_objective("e2el:2.5", objectives).ok());
  EXPECT_EQ(objectives.text(), "ttft <= 500 ms, e2el <= 2.5 ms");
  for (const char* wrong : {"", "ttft", "ttft:", "ttft:x", "ttft:-1", "ttft:0", "ttft:1x", "p99:5",
                            "ttft:inf", "ttft:nan", ":5"}) {
    const Status status = add_objective(wrong, objectives);
    ASSERT_FALSE(status.ok()) << wrong;
    EXPECT_THAT(status.error().message, testing::HasSubstr("ttft:MS"));
  }
}

TEST(ServerUrl, HasHostPortAndPath) {
  struct Case {
    const char *url, *host, *port, *path, *text;
  };
  for (const Case& expected : {
           Case{"http://localhost:8000", "localhost", "8000", "", "http://localhost:8000"},
           Case{"http://localhost:8000/v1/", "localhost", "8000", "", "http://localhost:8000"},
           Case{"https://api.example.com/v1", "api.example.com", "443", "",
                "https://api.example.com"},
           Case{"http://h/a/b", "h", "80", "/a/b", "http://h/a/b"},
           Case{"http://h:80/a/v1", "h", "80", "/a", "http://h/a"},
           Case{"http://[::1]:9/", "::1", "9", "", "http://[::1]:9"},
           Case{"http://[::1]", "::1", "80", "", "http://[::1]"},
       }) {
    const auto url = parse_server_url(expected.url);
    ASSERT_TRUE(url.ok()) << expected.url;
    EXPECT_EQ(url->host, expected.host);
    EXPECT_EQ(url->port, expected.port);
    EXPECT_EQ(url->path, expected.path);
    EXPECT_EQ(url->text(), expected.text);
  }
}

TEST(ServerUrl, OthersAreRefused) {
  for (const char* wrong :
       {"", "localhost:8000", "ftp://h", "http://", "http://:80", "http://h:", "http://h:0",
        "http://h:65536", "http://h:8x", "http://h/a b", "http://h\r\nX: y", "http://[::1",
        "http://user@h", "http://h/?q", "http://h#f"}) {
    const auto url = parse_server_url(wrong);
    ASSERT_FALSE(url.ok()) << wrong;
    EXPECT_THAT(url.error().message, testing::HasSubstr("expected http://HOST"));
  }
}

}  // namespace
}  // namespace neuronmm::load
