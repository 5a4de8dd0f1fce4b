// The CPU kernels against the machine: for Y = X·W and Y = X·U·V, GFLOP/s and GB/s beside the
// measured multiply-add peak and streaming-read bandwidth, and beside OpenBLAS (fp32 weights).
//
//   dense        bf16 W                     low-rank fused   (X·U)·V, the strip stays in cache
//   sequential   X·U for all rows, then ·V  OpenBLAS         sgemm: X·W, and X·U then ·V
//
// Of --repeats runs it prints the fastest, the median and the quartiles; rates and shares are of
// the fastest, since other processes can only make a run slower. FLOPs are those of the method
// itself; bytes are its weights, which decoding must read once.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <random>
#include <vector>

#include <CLI/CLI.hpp>
#include <cblas.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/float16.h"
#include "base/parallel.h"
#include "cpu/backend.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace neuronmm::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// `rounds` rounds of 12 independent multiply-adds: enough to hide a latency of 4 at two per cycle.
// Returns the floating-point operations done; *result keeps the compiler from dropping them.
double multiply_adds(int64_t rounds, float* result) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.999f), term = hn::Set(d, 1e-3f);
  const auto first = hn::Iota(d, 1.0f);
  auto s0 = first, s1 = hn::Add(s0, first), s2 = hn::Add(s1, first), s3 = hn::Add(s2, first);
  auto s4 = hn::Add(s3, first), s5 = hn::Add(s4, first), s6 = hn::Add(s5, first);
  auto s7 = hn::Add(s6, first), s8 = hn::Add(s7, first), s9 = hn::Add(s8, first);
  auto s10 = hn::Add(s9, first), s11 = hn::Add(s10, first);
  for (int64_t i = 0; i < rounds; ++i) {
    s0 = hn::MulAdd(s0, factor, term), s1 = hn::MulAdd(s1, factor, term);
    s2 = hn::MulAdd(s2, factor, term), s3 = hn::MulAdd(s3, factor, term);
    s4 = hn::MulAdd(s4, factor, term), s5 = hn::MulAdd(s5, factor, term);
    s6 = hn::MulAdd(s6, factor, term), s7 = hn::MulAdd(s7, factor, term);
    s8 = hn::MulAdd(s8, factor, term), s9 = hn::MulAdd(s9, factor, term);
    s10 = hn::MulAdd(s10, factor, term), s11 = hn::MulAdd(s11, factor, term);
  }
  for (const auto& s : {s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11}) s0 = hn::Add(s0, s);
  *result = hn::GetLane(hn::SumOfLanes(d, s0));
  return static_cast<double>(rounds * 12 * 2) * static_cast<double>(hn::Lanes(d));
}

// Reads `words` (a multiple of 4 vectors) once, from start to end.
uint32_t read_words(const uint32_t* from, int64_t words) {
  const hn::ScalableTag<uint32_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (int64_t i = 0; i < words; i += 4 * lanes) {
    a = hn::Add(a, hn::LoadU(d, from + i)), b = hn::Add(b, hn::LoadU(d, from + i + lanes));
    c = hn::Add(c, hn::LoadU(d, from + i + 2 * lanes));
    e = hn::Add(e, hn::LoadU(d, from + i + 3 * lanes));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

}  // namespace HWY_NAMESPACE
}  // namespace neuronmm::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace neuronmm::bench {
namespace {

HWY_EXPORT(multiply_adds);
HWY_EXPORT(read_words);

struct Seconds {
  double minimum, lower_quartile, median, upper_quartile;
};

// One run to warm up, then `repeats` timed ones.
template <typename Run>
Seconds measure(int repeats, const Run& run) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int i = 0; i <= repeats; ++i) {
    const Clock::time_point start = Clock::now();
    run();
    if (i > 0) times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  const size_t n = times.size();
  return {times[0], times[n / 4], times[n / 2], times[n * 3 / 4]};
}

struct Peaks {
  double gflops = 0, gigabytes = 0;
};

Peaks measure_peaks(int repeats) {
  constexpr int64_t kRounds = 20'000;            // 0.1 ms, so that some run is not interrupted
  constexpr int64_t kWords = int64_t{32} << 20;  // 128 MiB: more than caches hold
  const int64_t threads = num_threads();
  const std::vector<uint32_t> words(static_cast<size_t>(kWords), 1);
  std::vector<float> results(static_cast<size_t>(threads) * 16);
  double flops = 0;
  const Seconds compute = measure(20 * repeats, [&] {
    parallel_ranges(threads, [&](int64_t first, int64_t) {
      const double done =
          HWY_DYNAMIC_DISPATCH(multiply_adds)(kRounds, &results[static_cast<size_t>(first) * 16]);
      if (first == 0) flops = done * static_cast<double>(threads);
    });
  });
  std::atomic<uint32_t> total = 0;  // used, so the compiler must read
  const Seconds read = measure(4 * repeats, [&] {
    parallel_for(kWords >> 18, [&](int64_t i) {
      total += HWY_DYNAMIC_DISPATCH(read_words)(words.data() + (i << 18), int64_t{1} << 18);
    });
  });
  return {flops / compute.minimum / 1e9, static_cast<double>(kWords) * 4 / read.minimum / 1e9};
}

// A random bf16 weight [rows, columns] with its fp32 copy for OpenBLAS.
struct Weight {
  Weight(int64_t rows, int64_t columns, std::mt19937& random) : floats(rows, columns) {
    std::uniform_real_distribution<float> uniform(-0.05f, 0.05f);
    for (int64_t i = 0; i < rows * columns; ++i) {
      const bf16 value = bf16::from_float(uniform(random));
      bits.push_back(value.bits);
      floats.data()[i] = value.to_float();
    }
  }
  TensorView view() const {
    return {DType::kBF16,
            {floats.rows(), floats.columns()},
            reinterpret_cast<const std::byte*>(bits.data())};
  }
  std::vector<uint16_t> bits;
  Matrix floats;
};

// y = x · w_t^T by OpenBLAS.
void blas_multiply(const Matrix& x, const Matrix& w_t, Matrix& y) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(x.rows()),
              static_cast<int>(w_t.rows()), static_cast<int>(x.columns()), 1.0f, x.data(),
              static_cast<int>(x.columns()), w_t.data(), static_cast<int>(w_t.columns()), 0.0f,
              y.data(), static_cast<int>(y.columns()));
}

struct Options {
  int64_t k = 2048, n = 8192, rank = 1280;  // gate and up projection of Llama-3.2-1B, ratio 0.2
  std::vector<int64_t> rows = {1, 4, 16, 128, 512};
  int repeats = 15, threads = 0;
  std::string json;
};

class Report {
 public:
  Report(std::string device, const Peaks& peaks, const Options& options) : peaks_(peaks) {
    fmt::print("{}: peak {:.0f} GFLOP/s, streaming read {:.1f} GB/s\nK {}, r {}, N {}\n", device,
               peaks.gflops, peaks.gigabytes, options.k, options.rank, options.n);
    fmt::print("{:>5} {:<21} {:>9} {:>9} {:>19} {:>8} {:>6} {:>7} {:>6}\n", "M", "method", "min ms",
               "median", "quartiles ms", "GFLOP/s", "%peak", "GB/s", "%read");
    json_ = {{"device", device},
             {"peak_gflops", peaks.gflops},
             {"read_gb_s", peaks.gigabytes},
             {"k", options.k},
             {"rank", options.rank},
             {"n", options.n},
             {"repeats", options.repeats},
             {"results", nlohmann::json::array()}};
  }
  // `weights` elements of `bytes_each` are used for `rows` rows. Rates are of the fastest run.
  void add(int64_t rows, const char* method, int64_t weights, int bytes_each, const Seconds& s) {
    const double count = static_cast<double>(weights);
    const double gflops = 2 * static_cast<double>(rows) * count / s.minimum / 1e9;
    const double gigabytes = count * bytes_each / s.minimum / 1e9;
    fmt::print(
        "{:>5} {:<21} {:>9.3f} {:>9.3f} {:>9.3f}-{:<9.3f} {:>8.1f} {:>5.0f}% {:>7.2f} {:>5.0f}%\n",
        rows, method, s.minimum * 1e3, s.median * 1e3, s.lower_quartile * 1e3,
        s.upper_quartile * 1e3, gflops, 100 * gflops / peaks_.gflops, gigabytes,
        100 * gigabytes / peaks_.gigabytes);
    json_["results"].push_back({{"m", rows},
                                {"method", method},
                                {"seconds_min", s.minimum},
                                {"seconds_lower_quartile", s.lower_quartile},
                                {"seconds_median", s.median},
                                {"seconds_upper_quartile", s.upper_quartile},
                                {"gflops", gflops},
                                {"gb_s", gigabytes}});
  }
  bool write(const std::string& path) const {
    std::ofstream file(path);
    file << json_.dump(2) << '\n';
    return file.good();
  }

 private:
  Peaks peaks_;
  nlohmann::json json_;
};

void run(const Options& o, const ops::Backend& backend, Report& report) {
  std::mt19937 random(1);
  const Weight w(o.n, o.k, random), u(o.rank, o.k, random), v(o.n, o.rank, random);
  const auto dense = backend.make_linear({.w_t = w.view()});
  const auto fused = backend.make_linear({.u_t = u.view(), .v_t = v.view()});
  const auto first = backend.make_linear({.w_t = u.view()});
  const auto second = backend.make_linear({.w_t = v.view()});
  const int64_t dense_size = o.n * o.k, low_rank_size = o.rank * (o.k + o.n);
  for (const int64_t m : o.rows) {
    Matrix x(m, o.k), strip(m, o.rank), y(m, o.n);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < m * o.k; ++i) x.data()[i] = normal(random);
    report.add(m, "dense bf16", dense_size, 2,
               measure(o.repeats, [&] { dense->apply(x.view(), y.view()); }));
    report.add(m, "low-rank fused bf16", low_rank_size, 2,
               measure(o.repeats, [&] { fused->apply(x.view(), y.view()); }));
    report.add(m, "low-rank sequential", low_rank_size, 2, measure(o.repeats, [&] {
                 first->apply(x.view(), strip.view());
                 second->apply(strip.view(), y.view());
               }));
    report.add(m, "OpenBLAS dense fp32", dense_size, 4,
               measure(o.repeats, [&] { blas_multiply(x, w.floats, y); }));
    report.add(m, "OpenBLAS low-rank", low_rank_size, 4, measure(o.repeats, [&] {
                 blas_multiply(x, u.floats, strip);
                 blas_multiply(strip, v.floats, y);
               }));
  }
}

}  // namespace
}  // namespace neuronmm::bench

int main(int argc, char** argv) {
  using namespace neuronmm;
  bench::Options options;
  CLI::App app("Speed of the CPU matmul kernels beside the machine's limits and OpenBLAS");
  app.add_option("--k", options.k, "in-features")->check(CLI::PositiveNumber);
  app.add_option("--n", options.n, "out-features")->check(CLI::PositiveNumber);
  app.add_option("--rank", options.rank)->check(CLI::PositiveNumber);
  app.add_option("--rows", options.rows, "numbers of tokens M")->check(CLI::PositiveNumber);
  app.add_option("--repeats", options.repeats)->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "0: all")->check(CLI::NonNegativeNumber);
  app.add_option("--json", options.json, "also write the results to this file");
  CLI11_PARSE(app, argc, argv);
  if (options.threads > 0) {
    set_num_threads(options.threads);
    openblas_set_num_threads(options.threads);
  }
  const auto backend = cpu::make_backend();
  bench::Report report(backend->name(), bench::measure_peaks(options.repeats), options);
  bench::run(options, *backend, report);
  if (!options.json.empty() && !report.write(options.json)) {
    fmt::print(stderr, "{}: cannot be written\n", options.json);
    return 1;
  }
  return 0;
}
#endif  // HWY_ONCE
