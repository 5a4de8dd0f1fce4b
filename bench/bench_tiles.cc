// Measures products out of cache: the speed that the kernels of each weight type reach on one core,
// compared with fp32 multiply-adds on registers alone. The numbers of rows include some that fill
// register tiles and some that do not. The weights are 4 panels, as many as a thread takes at a
// time. The types run in turns, and the best of each is printed, because other programs may run.
//
// "bf16 rows" are products of bf16 weights with activations rounded to bf16, on CPUs that gain by
// them.
//
//     bench_tiles [K [TURNS]]

#include <algorithm>
#include <cstdlib>
#include <random>

#include <fmt/format.h>

#include "base/parallel.h"
#include "cpu/kernels.h"
#include "cpu/matmul.h"
#include "machine_limits.h"
#include "random_weight.h"
#include "timing.h"

namespace neuronmm::bench {
namespace {

constexpr int64_t kColumns = 4 * cpu::kPanel;
struct Contender {
  const char* name;
  int bits;
  cpu::DotProducts dot_products;
};
constexpr auto kBytes = cpu::DotProducts::kInt8, kPairs = cpu::DotProducts::kInt8AndBf16;
constexpr Contender kContenders[] = {{"bf16", 16, kBytes},
                                     {"bf16 rows", 16, kPairs},
                                     {"int8", 8, kBytes},
                                     {"6 bits", 6, kBytes},
                                     {"4 bits", 4, kBytes}};

void measure(const RandomWeight& weight, int64_t m, int64_t k, int turns) {
  // The smallest number of multiply-adds in a turn, which begins with cold caches.
  constexpr double kMinMultiplyAdds = 4e8;
  Matrix x(m, k), y(m, kColumns);
  std::mt19937 random(static_cast<uint32_t>(m));
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::generate_n(x.data(), m * k, [&] { return uniform(random); });
  const double each = static_cast<double>(m * k * kColumns);
  const auto repeats = static_cast<int64_t>(std::max(1.0, kMinMultiplyAdds / each));
  std::vector<cpu::PackedMatrix> packed;
  for (const Contender& one : kContenders) packed.emplace_back(weight.view(one.bits));
  std::vector<cpu::Buffer<float>> storage(packed.size());
  std::vector<std::function<void()>> runs;
  for (size_t i = 0; i < packed.size(); ++i) {
    const cpu::Kernels& kernels =
        cpu::best_kernels({.most_dot_products = kContenders[i].dot_products});
    const cpu::PackedRows a = cpu::pack_rows(kernels, x.view(), packed[i].type(), storage[i]);
    runs.emplace_back([&kernels, &packed, y = y.view(), repeats, a, i] {
      for (int64_t j = 0; j < repeats; ++j) {
        kernels.multiply(a, packed[i], {0, a.tiles, 0, packed[i].panels()}, nullptr, y);
      }
    });
  }
  fmt::print("{:>5}", m);
  for (const Seconds& seconds : take_turns(runs, turns, [](size_t) {})) {
    fmt::print("{:>10.1f}", each * static_cast<double>(repeats) / seconds.minimum / 1e9);
  }
  fmt::print("\n");
}

}  // namespace

int run(int argc, char** argv) {
  const int64_t k = argc > 1 ? std::atoll(argv[1]) : 2048;
  const int turns = argc > 2 ? std::atoi(argv[2]) : 60;
  if (k < 1 || turns < 1 || argc > 3) {
    fmt::print(stderr, "usage: bench_tiles [K [TURNS]]\n");
    return 2;
  }
  set_num_threads(1);
  std::mt19937 random(1);
  const RandomWeight weight(kColumns, k, random);
  fmt::print("{}, one core, K {}, N {}: multiply-adds per ns, of registers alone {:.1f} of fp32\n",
             cpu::best_kernels({.most_dot_products = kPairs}).target, k, kColumns,
             measure_machine_limits().fma_gflops / 2);
  fmt::print("{:>5}", "rows");
  for (const Contender& one : kContenders) fmt::print("{:>10}", one.name);
  fmt::print("\n");
  for (const int64_t m : {1, 2, 3, 4, 6, 12, 18, 24, 32, 48, 128, 240}) {
    measure(weight, m, k, turns);
  }
  return 0;
}

}  // namespace neuronmm::bench

int main(int argc, char** argv) { return neuronmm::bench::run(argc, argv); }
