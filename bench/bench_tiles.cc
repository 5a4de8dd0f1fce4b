// Products out of cache: what the kernels of each type of weights reach on one core, beside the
// fp32 multiply-adds of registers alone, for numbers of rows that fill register tiles and not. The
// weights are 4 panels, what a thread takes at a time. Types take turns; printed are the best of
// them, since other programs may run.
//
//     bench_tiles [K [turns]]

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
constexpr int kBits[] = {16, 8, 6, 4};

void measure(const cpu::Kernels& kernels, const RandomWeight& weight, int64_t m, int64_t k,
             int turns) {
  constexpr double kLeastMultiplyAdds = 2e7;  // of a turn: some 0.3 ms
  Matrix x(m, k), y(m, kColumns);
  std::mt19937 random(static_cast<uint32_t>(m));
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::generate_n(x.data(), m * k, [&] { return uniform(random); });
  const double each = static_cast<double>(m * k * kColumns);
  const auto repeats = static_cast<int64_t>(std::max(1.0, kLeastMultiplyAdds / each));
  std::vector<cpu::PackedMatrix> packed;
  for (const int bits : kBits) packed.emplace_back(weight.view(bits));
  std::vector<cpu::Buffer<float>> storage(packed.size());
  std::vector<std::function<void()>> runs;
  for (size_t i = 0; i < packed.size(); ++i) {
    const cpu::PackedRows a = cpu::pack_rows(kernels, x.view(), packed[i].type(), storage[i]);
    runs.emplace_back([&, a, i] {
      for (int64_t j = 0; j < repeats; ++j) {
        kernels.multiply(a, packed[i], {0, a.tiles, 0, packed[i].panels()}, nullptr, y.view());
      }
    });
  }
  fmt::print("{:>5}", m);
  for (const Seconds& seconds : take_turns(runs, turns, [](size_t) {})) {
    fmt::print("{:>9.1f}", each * static_cast<double>(repeats) / seconds.minimum / 1e9);
  }
  fmt::print("\n");
}

}  // namespace

int run(int argc, char** argv) {
  const int64_t k = argc > 1 ? std::atoll(argv[1]) : 2048;
  const int turns = argc > 2 ? std::atoi(argv[2]) : 60;
  set_num_threads(1);
  std::mt19937 random(1);
  const RandomWeight weight(kColumns, k, random);
  const cpu::Kernels& kernels = cpu::best_kernels();
  fmt::print("{}, one core, K {}, N {}: multiply-adds per ns, of registers alone {:.1f} of fp32\n",
             kernels.target, k, kColumns, measure_machine_limits().fma_gflops / 2);
  fmt::print("{:>5}{:>9}{:>9}{:>9}{:>9}\n", "rows", "bf16", "int8", "6 bits", "4 bits");
  for (const int64_t m : {1, 2, 3, 4, 6, 12, 18, 24, 48, 128})
    measure(kernels, weight, m, k, turns);
  return 0;
}

}  // namespace neuronmm::bench

int main(int argc, char** argv) { return neuronmm::bench::run(argc, argv); }
