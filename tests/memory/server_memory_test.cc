// Tests that a server with little memory goes on. Requests that need more than is left get a
// status, and a request that needs little succeeds afterwards. Memory is limited by the address
// space (ulimit -v), by --memory, and by allocations that fail at chosen times.

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>

#include "memory/allocation_faults.h"
#include "memory/limited_program.h"
#include "serve/http/http_client.h"

namespace neuronmm::memory {
namespace {

using nlohmann::json;
using serve::HttpClient;
using serve::HttpResponse;

// A server of one layer of the bundled model, which ends with the object.
class RunningServer {
 public:
  RunningServer(const fs::path& folder, const std::string& flags, rlim_t address_space,
                std::vector<std::pair<std::string, std::string>> environment = {},
                const fs::path& control_group = {})
      : launch_{"serve " + one_layer_model().string() + " --port 0 --threads 2 " + flags, folder,
                address_space, std::move(environment), control_group},
        child_(start(launch_)) {}
  ~RunningServer() {
    if (!ended_) kill(child_, SIGKILL);
    if (!ended_) waitpid(child_, nullptr, 0);
  }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;

  // Waits until the server is ready. Returns false if it has ended instead, by itself and orderly.
  bool wait_until_ready() {
    for (int i = 0; i < 20000; ++i) {
      if (log().find("is ready") != std::string::npos) {
        const std::string text = log();
        const size_t url = text.find("listening on http://");
        port_ = std::atoi(text.c_str() + text.find_last_of(':', text.find('\n', url)) + 1);
        return true;
      }
      siginfo_t info = {};
      if (waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
          info.si_pid == child_) {
        ended_ = wait_for(child_, launch_, std::chrono::seconds(1));
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "the server does not start: " << log();
    return false;
  }
  // Ends the server by SIGTERM, which must let it end orderly.
  Ended end() {
    kill(child_, SIGTERM);
    ended_ = wait_for(child_, launch_, std::chrono::seconds(60));
    return *ended_;
  }
  const std::optional<Ended>& ended() const { return ended_; }
  std::string log() const { return get(launch_.folder / "log"); }
  int port() const { return port_; }

  int64_t anonymous_bytes() const {
    std::ifstream status(fmt::format("/proc/{}/status", child_));
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("RssAnon:")) return std::atoll(line.c_str() + 8) * 1024;
    }
    return 0;
  }

 private:
  const Launch launch_;
  const pid_t child_;
  std::optional<Ended> ended_;
  int port_ = 0;
};

struct Posted {
  std::string path, body;
};

// Requests that take much memory, each in another part of the server.
std::vector<Posted> large_requests() {
  std::string words;
  while (words.size() < 1200) words += "Once upon a time ";
  json properties = json::object();
  for (int i = 0; i < 1500; ++i)
    properties[fmt::format("name{}", i)] = {{"enum", {fmt::format("a{}", i), i, nullptr}}};
  const json schema = {{"type", "json_schema"},
                       {"json_schema",
                        {{"name", "large"},
                         {"schema", {{"type", "object"}, {"properties", std::move(properties)}}}}}};
  std::string tokens = "{\"tokens\":[1";
  for (int i = 0; i < 300'000; ++i) tokens += ",65";
  std::string nested = "{\"model\":\"demo\",\"unknown\":[[1]";
  for (int i = 0; i < 600'000; ++i) nested += ",[1]";
  return {
      {"/v1/completions",
       json({{"prompt", words}, {"n", 16}, {"max_tokens", 40}, {"logprobs", 5}}).dump()},
      {"/v1/completions", json({{"prompt", std::vector<std::string>(32, words)},
                                {"max_tokens", 8},
                                {"echo", true},
                                {"logprobs", 5}})
                              .dump()},
      {"/v1/completions",
       json({{"prompt", "A"}, {"max_tokens", 16}, {"response_format", schema}}).dump()},
      {"/tokenize", json({{"prompt", std::string(900'000, 'a')}, {"with_pieces", true}}).dump()},
      {"/detokenize", tokens + "]}"},
      {"/v1/completions", nested + "],\"prompt\":\"A\",\"max_tokens\":4}"},
      {"/v1/messages", json({{"model", "demo"},
                             {"max_tokens", 4},
                             {"messages", {{{"role", "user"}, {"content", words}}}}})
                           .dump()},
  };
}

HttpResponse small_request(int port) {
  return HttpClient(port).post("/v1/completions", R"({"prompt": "Once", "max_tokens": 4})");
}

// Sends all requests on `clients` threads, `rounds` times, and returns the responses.
std::vector<HttpResponse> send_all(int port, const std::vector<Posted>& requests, int clients,
                                   int rounds) {
  const size_t count = requests.size() * static_cast<size_t>(rounds);
  std::vector<HttpResponse> responses(count);
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([&] {
      for (size_t at; (at = next++) < count;) {
        const Posted& request = requests[at % requests.size()];
        responses[at] = HttpClient(port).post(request.path, request.body);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return responses;
}

// Memory that requests have used may be given back a moment after their responses.
void expect_small_request_succeeds(const RunningServer& server, const std::string& where) {
  HttpResponse response;
  for (int i = 0; i < 100 && response.status != 200; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    response = small_request(server.port());
  }
  EXPECT_EQ(response.status, 200) << where << "\n" << response.body << server.log();
}

void expect_all_answered(const std::vector<HttpResponse>& responses, const std::string& where) {
  for (size_t i = 0; i < responses.size(); ++i) {
    const int status = responses[i].status;
    EXPECT_TRUE(status == 200 || status == 400 || status == 429 || status == 503)
        << where << ": response " << i << " has status " << status << "\n"
        << responses[i].body.substr(0, 300);
    EXPECT_TRUE(responses[i].complete) << where << ": response " << i;
    if (status == 503) {
      EXPECT_NE(responses[i].body.find("ut of memory"), std::string::npos) << responses[i].body;
    }
  }
}

TEST(ServerMemory, EachLimitOfAddressSpaceHitsOnlyRequests) {
  const io::TemporaryFolder folder;
  const rlim_t least = least_address_space(folder.path());
  const auto requests = large_requests();
  const double factor = run_all() ? 1.05 : 1.4;
  int served = 0, refused = 0;
  for (double limit = static_cast<double>(least); served < (run_all() ? 30 : 3); limit *= factor) {
    const std::string where = fmt::format("under {:.0f} bytes", limit);
    RunningServer server(folder.path(), "", static_cast<rlim_t>(limit));
    if (!server.wait_until_ready()) {
      ASSERT_TRUE(server.ended().has_value()) << where;
      expect_orderly_end(*server.ended(), where);
      ASSERT_EQ(server.ended()->exit_code, 1) << where << server.log();
      ++refused;
      continue;
    }
    ++served;
    expect_all_answered(send_all(server.port(), requests, 8, 1), where);
    expect_small_request_succeeds(server, where);
    EXPECT_EQ(server.end().exit_code, 0) << where << server.log();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(refused, 0);
}

TEST(ServerMemory, StaysBelowTheLimitThatItStates) {
  const io::TemporaryFolder folder;
  RunningServer server(folder.path(), "--memory 240MB", RLIM_INFINITY);
  ASSERT_TRUE(server.wait_until_ready()) << server.log();
  EXPECT_NE(server.log().find("memory: at most 240.0 MB (--memory); "), std::string::npos)
      << server.log();
  for (const char* part : {"for the model", "for keys and values", "for buffers", "for requests"})
    EXPECT_NE(server.log().find(part), std::string::npos) << part << server.log();
  std::atomic<bool> done = false;
  int64_t most = 0;
  std::thread watch([&] {
    for (; !done; std::this_thread::sleep_for(std::chrono::milliseconds(2)))
      most = std::max(most, server.anonymous_bytes());
  });
  expect_all_answered(send_all(server.port(), large_requests(), 8, run_all() ? 10 : 2), "load");
  done = true;
  watch.join();
  EXPECT_GT(most, 0);
  EXPECT_LE(most, 240'000'000);
  expect_small_request_succeeds(server, "after the load");
  EXPECT_EQ(server.end().exit_code, 0) << server.log();
}

// A control group with a limit of memory, as a container has one.
class ControlGroup {
 public:
  explicit ControlGroup(int64_t bytes) {
    const std::string name = fmt::format("neuronmm-test-{}", getpid());
    std::error_code error;
    for (const char* root : {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"}) {
      const fs::path group = fs::path(root) / name;
      const bool version1 = fs::exists(fs::path(root) / "memory.limit_in_bytes");
      if (!version1 && !fs::exists(fs::path(root) / "cgroup.controllers")) continue;
      if (!fs::create_directory(group, error)) continue;
      limit_file_ = group / (version1 ? "memory.limit_in_bytes" : "memory.max");
      std::ofstream limit(limit_file_);
      if (limit << bytes << std::flush) return;
      fs::remove(group, error);
      limit_file_.clear();
    }
  }
  ~ControlGroup() {
    std::error_code ignored;
    for (int i = 0; i < 100 && exists() && !fs::remove(folder(), ignored); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;

  bool exists() const { return !limit_file_.empty(); }
  fs::path limit_file() const { return limit_file_; }
  fs::path folder() const { return limit_file_.parent_path(); }
  // Returns how many processes the system has ended because memory ran out.
  int64_t kills() const {
    const bool version1 = limit_file_.filename() == "memory.limit_in_bytes";
    std::ifstream events(folder() / (version1 ? "memory.oom_control" : "memory.events"));
    for (std::string name; events >> name;) {
      if (int64_t count = 0; name == "oom_kill" && events >> count) return count;
    }
    return 0;
  }

 private:
  fs::path limit_file_;
};

TEST(ServerMemory, StaysBelowTheLimitOfItsContainer) {
  const ControlGroup group(int64_t{300} << 20);
  if (!group.exists())
    GTEST_SKIP()
        << "no control group for memory can be made: run this test as root, outside of a container";
  const io::TemporaryFolder folder;
  RunningServer server(folder.path(), "", RLIM_INFINITY, {}, group.folder());
  ASSERT_TRUE(server.wait_until_ready()) << server.log();
  EXPECT_NE(server.log().find("memory: at most 283.1 MB (90 % of 314.6 MB in " +
                              group.limit_file().string()),
            std::string::npos)
      << server.log();
  expect_all_answered(send_all(server.port(), large_requests(), 8, run_all() ? 20 : 2), "load");
  expect_small_request_succeeds(server, "after the load");
  EXPECT_EQ(group.kills(), 0);
  EXPECT_EQ(server.end().exit_code, 0) << server.log();
}

TEST(ServerMemory, AnAnswerOfAllKeysAndValuesStaysBelowTheLimit) {
  const io::TemporaryFolder folder;
  RunningServer server(folder.path(), "--memory 200MB --max-num-seqs 16", RLIM_INFINITY);
  ASSERT_TRUE(server.wait_until_ready()) << server.log();
  const std::vector<Posted> requests(
      16, {"/v1/completions",
           json({{"prompt", "Once"}, {"n", 4}, {"max_tokens", 200}, {"ignore_eos", true}}).dump()});
  const auto responses = send_all(server.port(), requests, 16, 1);
  for (const HttpResponse& response : responses) EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_LE(server.anonymous_bytes(), 200'000'000);
}

TEST(ServerMemory, ALimitThatIsTooSmallIsAnErrorWithItsParts) {
  const io::TemporaryFolder folder;
  for (const char* flags : {"--memory 110MB", "--memory 300MB --kv-cache-memory 280MB"}) {
    RunningServer server(folder.path(), flags, RLIM_INFINITY);
    EXPECT_FALSE(server.wait_until_ready());
    ASSERT_TRUE(server.ended().has_value());
    expect_orderly_end(*server.ended(), flags);
    EXPECT_EQ(server.ended()->exit_code, 1);
    for (const char* part :
         {"memory: expected at ", " MB, found ", " MB (--memory)", "the model has", "buffers"})
      EXPECT_NE(server.log().find(part), std::string::npos) << part << server.log();
  }
}

// A server whose allocations fail while `every` is set.
class FailingServer : public testing::Test {
 protected:
  FailingServer() {
    const std::string path = folder_ / "allocations";
    const int file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
    EXPECT_EQ(ftruncate(file, sizeof(AllocationFaults)), 0);
    faults_ = static_cast<AllocationFaults*>(
        mmap(nullptr, sizeof(AllocationFaults), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
    server_.emplace(
        folder_.path(), "", RLIM_INFINITY,
        std::vector<std::pair<std::string, std::string>>{{"LD_PRELOAD", NEURONMM_FAILING_ALLOCATOR},
                                                         {"NEURONMM_ALLOCATIONS", path}});
  }
  ~FailingServer() override { munmap(faults_, sizeof(AllocationFaults)); }

  const io::TemporaryFolder folder_;
  AllocationFaults* faults_ = nullptr;
  std::optional<RunningServer> server_;
};

// An allocation that fails may be the one for the connection, which then closes without an answer.
TEST_F(FailingServer, GoesOnAfterEachFailure) {
  ASSERT_TRUE(server_->wait_until_ready()) << server_->log();
  std::vector<Posted> requests = large_requests();
  std::erase_if(requests, [](const Posted& request) { return request.body.size() > 1'000'000; });
  for (const char* path : {"/tokenize", "/v1/completions", "/v1/chat/completions"})
    requests.push_back({path, R"({"prompt": "Once", "max_tokens": 4, "stream": true})"});
  const auto seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < (run_all() ? 300 : 4) && !HasFailure(); ++round) {
    const bool burst = round % 2 == 1;
    const long gap = std::uniform_int_distribution<long>(burst ? 2000 : 50, 5000)(random);
    faults_->count = burst ? 200 : 1;
    faults_->first = faults_->calls + gap;
    faults_->every = burst ? 0 : gap;
    const auto responses = send_all(server_->port(), requests, 4, 1);
    faults_->every = faults_->first = 0;
    for (const HttpResponse& response : responses)
      EXPECT_TRUE(response.status == 0 || response.complete) << response.status << response.body;
    expect_small_request_succeeds(*server_, fmt::format("after round {} with {}", round, gap));
  }
  EXPECT_EQ(server_->end().exit_code, 0) << server_->log();
}

}  // namespace
}  // namespace neuronmm::memory
