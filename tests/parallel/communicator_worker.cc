// This program is one of several processes that a test starts. It compares what it gets from the
// others with fp64 sums of the values that it knows they have. It prints what is wrong and then
// exits with code 1.
//
//    communicator_worker shared|messages sums|bytes|idle|die|hang|stall|disagree [seconds]

#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <signal.h>

#include "base/float16.h"
#include "parallel/agreement.h"
#include "parallel/connect.h"

namespace {

using namespace neuronmm;
using parallel::Communicator;
using parallel::Wire;

int failures = 0;
void expect(bool condition, const std::string& what) {
  if (condition) return;
  ++failures;
  fmt::print(stderr, "WRONG: {}\n", what);
}

constexpr uint64_t kSeed = 20261123;

// Returns the values of one process in a test; every process can compute those of all.
std::vector<float> values_of(int process, size_t count) {
  std::mt19937_64 random(kSeed + static_cast<uint64_t>(process) * 1000003 + count);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

uint64_t bits_of(const std::vector<float>& values) {
  uint64_t hash = 1469598103934665603u;
  for (const float value : values) {
    hash = (hash ^ std::bit_cast<uint32_t>(value)) * 1099511628211u;
  }
  return hash;
}

// Checks that |sum - exact| <= p u (sum of |v|). With bf16 the rounding of every term and of the
// sum is allowed, too.
void check_sum(Communicator& all, size_t count, Wire wire) {
  const int p = all.processes();
  std::vector<float> sum = values_of(all.process(), count);
  const auto before = all.traffic();
  all.sum(std::span<float>(sum), wire);
  std::vector<double> exact(count), magnitude(count);
  for (int i = 0; i < p; ++i) {
    const std::vector<float> theirs = values_of(i, count);
    for (size_t j = 0; j < count; ++j) {
      exact[j] += theirs[j];
      magnitude[j] += std::abs(theirs[j]);
    }
  }
  const double unit = wire == Wire::kBF16 ? std::ldexp(2.1, -8) : std::ldexp(p, -24);
  for (size_t j = 0; j < count; ++j) {
    if (std::abs(sum[j] - exact[j]) <= unit * magnitude[j] + 1e-30) continue;
    return expect(
        false, fmt::format("sum of {} values, element {}: {} for {}", count, j, sum[j], exact[j]));
  }
  const uint64_t bits = bits_of(sum);
  for (const auto& theirs : all.all_gather(std::as_bytes(std::span(&bits, 1)))) {
    expect(std::memcmp(theirs.data(), &bits, sizeof(bits)) == 0, "all have the same bits");
  }
  if (all.link() != "messages") return;
  const int64_t n = static_cast<int64_t>(count);
  const int64_t own = all.share(n).count;
  const int64_t formula = p == 2 ? n : (n - own) + (p - 1) * own;
  const int64_t of_bits = (p - 1) * 8;
  expect(all.traffic().bytes_sent - before.bytes_sent == formula * bytes_of(wire) + of_bits,
         fmt::format("sum of {} values sent {} bytes, expected {}", count,
                     all.traffic().bytes_sent - before.bytes_sent - of_bits,
                     formula * bytes_of(wire)));
}

void check_fp64(Communicator& all) {
  std::vector<double> values(1000), expected(1000);
  for (int i = 0; i < all.processes(); ++i) {
    for (size_t j = 0; j < values.size(); ++j) {
      const double value = 1.0 / (3.0 + static_cast<double>(j) + 1000.0 * i);
      if (i == all.process()) values[j] = value;
      expected[j] += value;
    }
  }
  all.sum(std::span<double>(values));
  expect(values == expected, "the sum of doubles in the order of the processes");
}

void check_all_gather(Communicator& all) {
  std::vector<int64_t> counts;
  std::vector<float> expected;
  for (int i = 0; i < all.processes(); ++i) {
    counts.push_back(i == 1 ? 0 : 70000 * (i + 1));
    const auto theirs = values_of(i, static_cast<size_t>(counts.back()));
    expected.insert(expected.end(), theirs.begin(), theirs.end());
  }
  const auto mine =
      values_of(all.process(), static_cast<size_t>(counts[static_cast<size_t>(all.process())]));
  std::vector<float> gathered(expected.size());
  all.all_gather(mine, counts, gathered);
  expect(gathered == expected, "all_gather of floats");
  all.all_gather(mine, counts, gathered, Wire::kBF16);
  for (size_t i = 0; i < gathered.size(); ++i) {
    if (std::abs(gathered[i] - expected[i]) > std::ldexp(std::abs(expected[i]), -8)) {
      return expect(false, "all_gather of floats as bf16");
    }
  }
}

int sums(Communicator& all) {
  for (const size_t count : {0, 1, 3, 576, 16384, 16385, 300007}) {
    check_sum(all, count, Wire::kFp32);
    check_sum(all, count, Wire::kBF16);
  }
  check_fp64(all);
  check_all_gather(all);
  return failures;
}

Communicator::Bytes text_of(int process, size_t length) {
  Communicator::Bytes bytes(length);
  for (size_t i = 0; i < length; ++i)
    bytes[i] = static_cast<std::byte>(i * 7 + static_cast<size_t>(process));
  return bytes;
}

int bytes(Communicator& all) {
  const auto length_of = [](int i) { return static_cast<size_t>(i == 1 ? 0 : 700000 * i + 5); };
  for (int round = 0; round < 3; ++round) {
    const auto mine = text_of(all.process(), length_of(all.process()));
    const auto everywhere = all.all_gather(std::span(mine));
    const auto at_first = all.gather(mine);
    for (int i = 0; i < all.processes(); ++i) {
      const auto theirs = text_of(i, length_of(i));
      expect(everywhere[static_cast<size_t>(i)] == theirs, fmt::format("all_gather from {}", i));
      expect(!all.is_first() || at_first[static_cast<size_t>(i)] == theirs,
             fmt::format("gather from {}", i));
    }
    expect(all.is_first() || at_first.empty(), "gather gives the others nothing");
    for (const size_t length : {0, 1, 1000000}) {
      auto order = all.is_first() ? text_of(9, length) : Communicator::Bytes{};
      all.broadcast(order);
      expect(order == text_of(9, length), fmt::format("broadcast of {} bytes", length));
    }
    all.barrier();
  }
  return failures;
}

// Checks that a process that waits two seconds for an order uses little of the processor.
int idle(Communicator& all) {
  all.barrier();
  const std::clock_t before = std::clock();
  if (all.is_first()) std::this_thread::sleep_for(std::chrono::seconds(2));
  Communicator::Bytes order(all.is_first() ? 3 : 0);
  all.broadcast(order);
  const double used = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  expect(used < 0.3, fmt::format("{} s of processor time in a wait of 2 s", used));
  return failures;
}

int die(Communicator& all) {
  all.barrier();
  if (all.process() == all.processes() - 1) raise(SIGKILL);
  all.barrier();
  return 1;
}

int hang(Communicator& all) {
  all.barrier();
  while (all.process() == all.processes() - 1) raise(SIGSTOP);
  all.barrier();
  return 1;
}

// Stops one process for a while and lets it continue, which looks like a stalled link.
int stall(Communicator& all) {
  all.barrier();
  if (all.process() == all.processes() - 1) {
    if (fork() == 0) {
      std::this_thread::sleep_for(std::chrono::seconds(2));
      kill(getppid(), SIGCONT);
      std::_Exit(0);
    }
    raise(SIGSTOP);
  }
  check_sum(all, 1000, Wire::kFp32);
  return failures;
}

int disagree(Communicator& all) {
  const parallel::Fact facts[] = {{"the version", "1.0"},
                                  {"--threads", all.process() == 1 ? "3" : "2"}};
  const Status same = parallel::agree(all, facts);
  expect(!same.ok() && same.error().message ==
                           "expected --threads to be the same in all processes, found 2 in process "
                           "0 and 3 in process 1",
         same.ok() ? "agreed" : same.error().message);
  const Status status =
      parallel::first_error_of_all(all, all.process() == 1 ? Status(fail("no disk")) : Status());
  expect(!status.ok() && status.error().message == "process 1: no disk", "the error of process 1");
  expect(parallel::first_error_of_all(all, Status()).ok(), "no error");
  return failures;
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<int(Communicator&)>> modes = {
      {"sums", sums}, {"bytes", bytes}, {"idle", idle},        {"die", die},
      {"hang", hang}, {"stall", stall}, {"disagree", disagree}};
  if (argc < 3 || !modes.contains(argv[2])) return 2;
  parallel::LinkOptions options;
  options.shared_memory = std::string(argv[1]) == "shared";
  if (argc > 3) options.timeout_s = std::atof(argv[3]);
  auto all = parallel::connect(options);
  if (!all.ok()) {
    fmt::print(stderr, "{}\n", all.error().message);
    return 1;
  }
  if ((*all)->link() != (options.shared_memory ? "shared memory" : "messages")) return 3;
  try {
    return modes.at(argv[2])(**all) == 0 ? 0 : 1;
  } catch (const parallel::ProcessLost& error) {
    fmt::print(stderr, "LOST: {}\n", error.what());
    (*all)->end_all(4);
  }
}
