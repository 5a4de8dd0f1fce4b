// This program compiles hostile schemas and patterns (hostile_formats.h) within their budget, and
// writes the beginning of a random answer in each. It prints for each kind how many are accepted,
// and the longest time and the largest memory of one. Beside them it measures how long a harmless
// schema takes, alone and while the hostile ones run. Patterns and schemas from other collections
// can be added, a line each. tests/slow/hostile_formats.sh runs the program.
//   hostile_suite TOKENIZER_FOLDER COUNT [PATTERN_FILE...]
//   hostile_suite --print COUNT [PATTERN_FILE...]   writes them as lines of JSON
// The exit code is 1 if one of them took more than its budget or more memory than kMostGrowth.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <malloc.h>
#include <sys/resource.h>
#include <time.h>

#include "hostile_formats.h"
#include "serve/grammar/matcher.h"
#include "serve/schema/schema_compiler.h"

namespace {

using namespace neuronmm;
using namespace neuronmm::grammar;
using Clock = std::chrono::steady_clock;

// The memory that a request may add to the process, in MiB: the budget's bytes, and what they do
// not count.
constexpr double kMostGrowth = 256;
// The time that one may take, in ms.
constexpr double kLongest = 8'000;
constexpr int kTokens = 60;  // of an answer

double milliseconds(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Returns the time in ms that this thread has had a core. Other threads do not lengthen it.
double own_milliseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

// Returns a line of /proc/self/status in MiB.
double memory(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::atof(line.c_str() + name.size() + 1) / 1024;
  }
  return 0;
}

struct Cost {
  double milliseconds = 0, growth = 0, mask = 0;  // growth in MiB, mask in ms
  int64_t steps = 0;
  bool accepted = false;
  std::string message;
};

// Writes tokens at random, and returns the longest time that one of them takes the engine.
double write_answer(std::shared_ptr<TokenMasks> masks) {
  Matcher matcher(masks);
  std::vector<uint64_t> mask(masks->vocabulary().mask_words());
  std::mt19937 random(1);
  double longest = 0;
  for (int i = 0; i < kTokens && !matcher.must_end(); ++i) {
    const double begin = own_milliseconds();
    matcher.allowed_tokens(mask);
    std::vector<text::TokenId> allowed;
    for (size_t word = 0; word < mask.size(); ++word) {
      for (uint64_t bits = mask[word]; bits != 0; bits &= bits - 1)
        allowed.push_back(
            static_cast<text::TokenId>(word * 64 + static_cast<size_t>(__builtin_ctzll(bits))));
    }
    if (allowed.empty()) break;
    matcher.advance(allowed[random() % allowed.size()]);
    longest = std::max(longest, own_milliseconds() - begin);
  }
  return longest;
}

Cost run(const HostileFormat& format, const std::shared_ptr<const TokenVocabulary>& vocabulary) {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak
  const double before = memory("VmRSS");
  Cost cost;
  Budget budget;
  const double begin = own_milliseconds();
  auto compiled = compile(format, "format", budget);
  std::shared_ptr<TokenMasks> masks;
  if (compiled.ok()) {
    auto made =
        TokenMasks::make(std::move(compiled).value(), vocabulary, int64_t{16} << 20, &budget);
    if (made.ok()) masks = *made;
    cost.message = made.ok() ? "" : made.error().message;
  } else {
    cost.message = compiled.error().message;
  }
  cost.milliseconds = own_milliseconds() - begin;
  cost.steps = budget.steps();
  cost.accepted = masks != nullptr;
  if (masks) cost.mask = write_answer(masks);
  cost.growth = memory("VmHWM") - before;
  return cost;
}

constexpr const char* kHarmless =
    R"({"type": "object", "properties": {"name": {"type": "string", "pattern": "^[A-Z][a-z]+$"},
        "age": {"type": "integer", "minimum": 0, "maximum": 130}, "when": {"type": "string", "format": "date-time"}},
        "required": ["name", "age"], "additionalProperties": false})";

// Compiles the harmless schema and writes an answer, again and again. Returns the times in ms.
std::vector<double> harmless_times(const std::shared_ptr<const TokenVocabulary>& vocabulary,
                                   const std::function<bool()>& goes_on) {
  std::vector<double> times;
  while (goes_on()) {
    const auto begin = Clock::now();
    Budget budget;
    auto compiled = compile({"harmless", false, kHarmless}, "harmless", budget);
    (void)write_answer(TokenMasks::make(std::move(compiled).value(), vocabulary).value());
    times.push_back(milliseconds(begin));
  }
  std::ranges::sort(times);
  return times;
}

void print_times(const char* what, const std::vector<double>& times) {
  std::printf("harmless %-22s median %7.2f ms   90 %% %7.2f ms   99 %% %7.2f ms   (%zu)\n", what,
              times[times.size() / 2], times[times.size() * 9 / 10], times[times.size() * 99 / 100],
              times.size());
}

struct Row {
  int count = 0, accepted = 0;
  Cost most;
};

void add(Row& row, const Cost& cost) {
  ++row.count;
  row.accepted += cost.accepted ? 1 : 0;
  row.most.milliseconds = std::max(row.most.milliseconds, cost.milliseconds);
  row.most.growth = std::max(row.most.growth, cost.growth);
  row.most.mask = std::max(row.most.mask, cost.mask);
  row.most.steps = std::max(row.most.steps, cost.steps);
}

void print(const std::string& kind, const Row& row) {
  std::printf("%-22s %5d %5d %9.1f %9.1f %9.1f %9.1f\n", kind.c_str(), row.count, row.accepted,
              row.most.milliseconds, static_cast<double>(row.most.steps) / 1e6, row.most.growth,
              row.most.mask);
}

bool is_within_budget(const HostileFormat& format, const Cost& cost) {
  const bool within = cost.growth <= kMostGrowth && cost.milliseconds <= kLongest &&
                      cost.steps <= BudgetLimits().steps * 11 / 10;
  if (!within)
    std::printf("TOO MUCH (%.0f MiB, %.0f ms, %.1f million steps): %s\n  %s\n", cost.growth,
                cost.milliseconds, static_cast<double>(cost.steps) / 1e6,
                format.text.substr(0, 300).c_str(), cost.message.c_str());
  return within;
}

// Runs all formats with a low priority. Returns whether each of them is within its budget.
bool run_all(const std::vector<HostileFormat>& formats,
             const std::shared_ptr<const TokenVocabulary>& vocabulary) {
  (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 10);
  std::map<std::string, Row> rows;
  Row all;
  bool ok = true;
  for (const HostileFormat& format : formats) {
    const Cost cost = run(format, vocabulary);
    add(rows[format.kind], cost);
    add(all, cost);
    ok = is_within_budget(format, cost) && ok;
  }
  std::printf("%-22s %5s %5s %9s %9s %9s %9s\n", "kind", "all", "ok", "ms", "10^6 st.", "MiB",
              "token ms");
  for (const auto& [kind, row] : rows) print(kind, row);
  print("all", all);
  return ok;
}

// Adds the patterns and schemas of the files that the arguments from number 3 on name.
std::vector<HostileFormat> all_formats(int argc, char** argv) {
  std::vector<HostileFormat> formats = hostile_formats(std::atoi(argv[2]), 1);
  for (int i = 3; i < argc; ++i) {
    std::ifstream file(argv[i]);
    for (std::string line; std::getline(file, line);)
      formats.push_back({argv[i], !line.starts_with("{"), line});
  }
  return formats;
}

void print_as_json(const std::vector<HostileFormat>& formats) {
  for (const HostileFormat& format : formats) {
    const Json line = {{"is_pattern", format.is_pattern}, {"text", format.text}};
    std::printf("%s\n", line.dump(-1, ' ', true, Json::error_handler_t::replace).c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "hostile_suite TOKENIZER_FOLDER COUNT [PATTERN_FILE...]\n");
    return 2;
  }
  const std::vector<HostileFormat> formats = all_formats(argc, argv);
  if (std::string(argv[1]) == "--print") {
    print_as_json(formats);
    return 0;
  }
  auto tokenizer = text::Tokenizer::load(argv[1]);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    return 2;
  }
  const auto vocabulary = std::make_shared<const TokenVocabulary>(
      *tokenizer, std::vector{*tokenizer->eos_id()}, tokenizer->vocab_size());
  const auto end = Clock::now() + std::chrono::seconds(5);
  print_times("alone", harmless_times(vocabulary, [&] { return Clock::now() < end; }));
  std::atomic<bool> running = true;
  bool ok = false;
  std::thread hostile([&] {
    ok = run_all(formats, vocabulary);
    running = false;
  });
  const auto times = harmless_times(vocabulary, [&] { return running.load(); });
  hostile.join();
  print_times("beside hostile ones", times);
  return ok ? 0 : 1;
}
