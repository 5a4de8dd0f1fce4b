// Measures the link and this process for the choice of layouts (measure_machine in backend.h).

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "tensor_parallel/backend.h"

namespace neuronmm::tensor_parallel {
namespace {

// Returns the shortest time of several runs. Longer runs were disturbed by other work.
double shortest_s(int runs, const std::function<void()>& run) {
  using Clock = std::chrono::steady_clock;
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < runs; ++i) {
    const auto start = Clock::now();
    run();
    shortest = std::min(shortest, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return shortest;
}

// Returns the rate at which all threads read an array from memory. The array is assumed to be
// larger than the caches.
double read_bytes_per_s() {
  constexpr int64_t kValues = int64_t{8} << 20;
  const std::vector<uint64_t> memory(kValues, 1);
  std::vector<uint64_t> sums(static_cast<size_t>(num_threads()));
  const double seconds = shortest_s(3, [&] {
    parallel_for(num_threads(), [&](int64_t i) {
      const Share share = parallel::share_of(kValues, static_cast<int>(i), num_threads());
      uint64_t sum = 0;
      for (int64_t j = share.first; j < share.end(); ++j) sum += memory[static_cast<size_t>(j)];
      sums[static_cast<size_t>(i)] = sum;
    });
  });
  return static_cast<double>(kValues * sizeof(uint64_t)) / seconds;
}

double flops(const ops::Backend& own) {
  constexpr int64_t kSize = 1024, kRows = 128;
  const Matrix weight(kSize, kSize), x(kRows, kSize);
  const ops::WeightView view(
      TensorView{DType::kF32, {kSize, kSize}, reinterpret_cast<const std::byte*>(weight.data())});
  const auto linear = own.make_linear({.w_t = view});
  Matrix y(kRows, kSize);
  return 2.0 * kRows * kSize * kSize / shortest_s(3, [&] { linear->apply(x.view(), y.view()); });
}

}  // namespace

Machine measure_machine(parallel::Communicator& communicator, const ops::Backend& own) {
  constexpr int64_t kBytes = int64_t{1} << 20;
  std::vector<float> few(16), many(kBytes / sizeof(float));
  communicator.barrier();
  Machine machine;
  machine.latency_s = shortest_s(20, [&] { communicator.sum(std::span<float>(few)); });
  const double seconds = shortest_s(5, [&] { communicator.sum(std::span<float>(many)); });
  const double p = communicator.processes();
  machine.bytes_per_s = 2 * (p - 1) / p * kBytes / std::max(1e-9, seconds - machine.latency_s);
  machine.read_bytes_per_s = read_bytes_per_s();
  machine.flops = flops(own);
  parallel::Communicator::Bytes bytes(sizeof(machine));
  std::memcpy(bytes.data(), &machine, sizeof(machine));
  communicator.broadcast(bytes);
  std::memcpy(&machine, bytes.data(), sizeof(machine));
  return machine;
}

}  // namespace neuronmm::tensor_parallel
