// Tests the content of /metrics with a strict parser of Prometheus' text format.

#include <map>
#include <regex>
#include <set>

#include "serve/http/served_demo.h"

namespace neuronmm::serve {
namespace {

struct Sample {
  std::map<std::string, std::string> labels;
  double value = 0.0;
};
struct MetricOfText {
  std::string type;
  std::map<std::string, std::vector<Sample>> samples;  // by the name of the sample
};

// Parses the metrics. Fails unless every family of metrics is complete, occurs once and has a type,
// and all names and values are valid.
std::map<std::string, MetricOfText> parse_metrics(const std::string& text) {
  static const std::regex type_line(
      R"(# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram))");
  static const std::regex help_line(R"(# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) .*)");
  static const std::regex sample_line(R"(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(.*)\})? (\S+))");
  static const std::regex label(R"rx(([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(,|$))rx");
  std::map<std::string, MetricOfText> families;
  std::string family, line;
  EXPECT_TRUE(text.ends_with('\n'));
  std::istringstream lines(text);
  while (std::getline(lines, line)) {
    std::smatch match;
    if (std::regex_match(line, help_line)) continue;
    if (std::regex_match(line, match, type_line)) {
      family = match[1];
      EXPECT_FALSE(families.contains(family)) << family << " comes twice";
      families[family].type = match[2];
      continue;
    }
    EXPECT_TRUE(std::regex_match(line, match, sample_line)) << line;
    const std::string name = match[1], labels = match[3];
    EXPECT_TRUE(name.starts_with(family)) << line;
    Sample sample;
    sample.value = match[4] == "+Inf" ? HUGE_VAL : std::stod(match[4]);
    size_t covered = 0;
    for (std::sregex_iterator it(labels.begin(), labels.end(), label), end; it != end; ++it) {
      sample.labels[(*it)[1]] = (*it)[2];
      covered += static_cast<size_t>(it->length());
    }
    EXPECT_EQ(covered, labels.size()) << line;
    families[family].samples[name].push_back(sample);
  }
  return families;
}

void expect_histogram(const std::string& name, const MetricOfText& metric) {
  double last_bound = -HUGE_VAL, last_count = 0.0;
  for (const Sample& bucket : metric.samples.at(name + "_bucket")) {
    const std::string& bound_text = bucket.labels.at("le");
    const double bound = bound_text == "+Inf" ? HUGE_VAL : std::stod(bound_text);
    EXPECT_GT(bound, last_bound) << name;
    EXPECT_GE(bucket.value, last_count) << name;
    last_bound = bound;
    last_count = bucket.value;
  }
  EXPECT_EQ(last_bound, HUGE_VAL) << name;
  EXPECT_EQ(metric.samples.at(name + "_count").at(0).value, last_count) << name;
  EXPECT_EQ(metric.samples.at(name + "_sum").size(), 1u) << name;
}

TEST_F(HttpTest, MetricsCountWhatADraftProposed) {
  engine_options_.draft.lookup = true;
  start();
  HttpClient client(port());
  EXPECT_EQ(client.post("/v1/completions", completion(200, false)).status, 200);
  expect_no_block_in_use();
  const auto families = parse_metrics(client.get("/metrics").body);
  const auto value = [&](const std::string& rest) {
    const std::string name = "vllm:spec_decode_num_" + rest + "_total";
    EXPECT_EQ(families.at(name).type, "counter");
    return static_cast<int64_t>(families.at(name).samples.at(name).at(0).value);
  };
  const Statistics now = engine_->statistics();
  EXPECT_EQ(value("drafts"), now.drafts);
  EXPECT_EQ(value("draft_tokens"), now.proposed_tokens);
  EXPECT_EQ(value("accepted_tokens"), now.accepted_tokens);
  EXPECT_GT(now.proposed_tokens, 0);
  EXPECT_LE(now.accepted_tokens, now.proposed_tokens);
}

TEST_F(HttpTest, MetricsHaveVllmsNamesAndCountRequestsAndTokens) {
  start();
  HttpClient client(port());
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(client.post("/v1/completions", completion(5, i % 2 == 0)).status, 200);
  expect_no_block_in_use();  // after this, the last step has been counted
  const HttpResponse response = client.get("/metrics");
  EXPECT_TRUE(response.header("content-type").starts_with("text/plain; version=0.0.4"));
  const auto metrics = parse_metrics(response.body);
  const auto one = [&](const std::string& name) {
    return metrics.at("vllm:" + name).samples.at("vllm:" + name).at(0).value;
  };
  for (const char* name : {"num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"}) {
    EXPECT_EQ(metrics.at(std::string("vllm:") + name).type, "gauge");
    EXPECT_EQ(one(name), 0.0);
  }
  for (const char* name : {"num_preemptions_total", "prefix_cache_queries_total",
                           "prefix_cache_hits_total", "generation_tokens_total"})
    EXPECT_EQ(metrics.at(std::string("vllm:") + name).type, "counter");
  EXPECT_EQ(one("generation_tokens_total"), 15.0);
  EXPECT_EQ(one("cache_config_info"), 1.0);
  for (const char* name :
       {"time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds",
        "request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds",
        "request_inference_time_seconds", "request_prompt_tokens", "request_generation_tokens",
        "iteration_tokens_total"}) {
    const std::string full = std::string("vllm:") + name;
    ASSERT_TRUE(metrics.contains(full)) << full;
    expect_histogram(full, metrics.at(full));
  }
  const auto count = [&](const std::string& name) {
    return metrics.at("vllm:" + name).samples.at("vllm:" + name + "_count").at(0).value;
  };
  EXPECT_EQ(count("time_to_first_token_seconds"), 3.0);
  EXPECT_EQ(count("inter_token_latency_seconds"), 12.0);
  EXPECT_EQ(count("request_generation_tokens"), 3.0);
  double successes = 0.0;
  for (const Sample& sample :
       metrics.at("vllm:request_success_total").samples.at("vllm:request_success_total")) {
    EXPECT_EQ(sample.labels.at("model_name"), "demo");
    EXPECT_EQ(sample.labels.at("engine"), "0");
    if (sample.labels.at("finished_reason") == "length") successes = sample.value;
  }
  EXPECT_EQ(successes, 3.0);
}

// The client leaves during a step, whose token then finds nobody who wants it.
TEST_F(HttpTest, AnswersOfClientsThatLeftCountAsAborted) {
  start();
  for (const bool stream : {true, false}) {
    HttpClient client(port());
    client.send(post_text("/v1/completions", completion(480, stream)));
    wait_for_requests(1, 0);
    backend_.hold();
    client.close();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    backend_.release();
    expect_no_block_in_use();
  }
  const auto metrics = parse_metrics(HttpClient(port()).get("/metrics").body);
  for (const Sample& sample :
       metrics.at("vllm:request_success_total").samples.at("vllm:request_success_total")) {
    const std::string& reason = sample.labels.at("finished_reason");
    EXPECT_EQ(sample.value, reason == "abort" ? 2.0 : 0.0) << reason;
  }
}

TEST_F(HttpTest, MetricsHaveTheConfiguredPrefix) {
  parts_.metrics_prefix = "mine_";
  start();
  const auto metrics = parse_metrics(HttpClient(port()).get("/metrics").body);
  EXPECT_TRUE(metrics.contains("mine_num_requests_running"));
  for (const auto& [name, metric] : metrics) EXPECT_FALSE(name.starts_with("vllm:"));
}

}  // namespace
}  // namespace neuronmm::serve
