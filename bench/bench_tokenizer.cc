// Measures the speed of encode and decode on one core: the median, the slowest and the fastest of
// seven runs over a text file. The first encode of the process, which sees every word for the first
// time, is reported separately.
//
//   bench_tokenizer MODEL_DIR TEXT_FILE

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>

#include <fmt/core.h>

#include "io/folder_writer.h"
#include "io/text_file.h"
#include "text/tokenizer/tokenizer.h"
#include "timing.h"

namespace {

using neuronmm::bench::seconds_of;
using neuronmm::text::TokenId;
using neuronmm::text::Tokenizer;

constexpr int kRuns = 7;

void report(const char* name, size_t bytes, const std::function<void()>& work) {
  std::array<double, kRuns> rates;
  for (double& rate : rates) rate = static_cast<double>(bytes) / 1e6 / seconds_of(work);
  std::sort(rates.begin(), rates.end());
  fmt::print("{:<13}{:8.2f} MB/s  ({:.2f} to {:.2f}, {} runs)\n", name, rates[kRuns / 2],
             rates.front(), rates.back(), kRuns);
}

int run(const char* folder, const char* text_file) {
  const auto text = neuronmm::io::read_text_file(text_file, neuronmm::io::kMaxTextBytes);
  if (!text.ok()) return fmt::print(stderr, "{}\n", text.error().message), 1;
  const auto start = std::chrono::steady_clock::now();
  const auto tokenizer = Tokenizer::load(folder);
  if (!tokenizer.ok()) return fmt::print(stderr, "{}\n", tokenizer.error().message), 1;
  const std::chrono::duration<double> load = std::chrono::steady_clock::now() - start;

  std::vector<TokenId> ids;
  const double first = seconds_of([&] { ids = tokenizer->encode(*text).value(); });
  const size_t bytes = text->size();
  fmt::print("load         {:8.3f} s\n", load.count());
  fmt::print("first encode {:8.2f} MB/s  ({} bytes, {} tokens)\n",
             static_cast<double>(bytes) / 1e6 / first, bytes, ids.size());
  size_t sink = 0;
  report("encode", bytes, [&] { sink += tokenizer->encode(*text)->size(); });
  report("decode", bytes, [&] { sink += tokenizer->decode(ids).size(); });
  return sink == 0 && bytes > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return fmt::print(stderr, "usage: bench_tokenizer MODEL_DIR TEXT_FILE\n"), 2;
  return run(argv[1], argv[2]);
}
