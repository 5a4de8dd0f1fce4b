#include "trainium/device/roofline.h"

#include <algorithm>

namespace neuronmm::device {
namespace {

constexpr double kBytes = 2;  // bf16.
constexpr double kLanes = 128;

// Converts a count to floating point, in which products of sizes do not overflow.
double real(int64_t count) { return static_cast<double>(count); }

// Returns how many keys M tokens after `first` others attend to, summed over the tokens. Token i
// sees the positions up to its own, at most `window` of them (0: all).
double visible_positions(int64_t M, int64_t first, int64_t window) {
  double positions = 0;
  for (int64_t i = first; i < first + M; ++i) {
    positions += real(window > 0 ? std::min(i + 1, window) : i + 1);
  }
  return positions;
}

}  // namespace

Work& Work::operator+=(const Work& other) {
  flops += other.flops;
  hbm_bytes += other.hbm_bytes;
  vector_elements += other.vector_elements;
  scalar_elements += other.scalar_elements;
  return *this;
}

// The slowest of the four resources decides. The start and the completion of a DMA are added twice:
// for the operands and for the result.
double roofline_seconds(const simulator::DeviceSpec& device, const Work& work) {
  const double hbm =
      std::min<double>(device.hbm_bandwidth, device.dma_engines * device.dma_bandwidth);
  const double ns =
      std::max({work.flops / (device.peak_flops_per_ns() * device.matmul_utilization_limit),
                work.hbm_bytes / hbm, work.vector_elements / (kLanes * device.vector_ghz),
                work.scalar_elements / (kLanes * device.scalar_ghz)});
  return 1e-9 * (ns + 2 * (device.dma_start_ns + device.dma_completion_ns));
}

// X and W are read, and Y is written once. A bias takes one more pass of the outputs through
// Vector.
Work linear_work(int64_t M, int64_t K, int64_t N, bool bias) {
  const double outputs = real(M) * real(N);
  return {.flops = 2 * outputs * real(K),
          .hbm_bytes =
              kBytes * (real(M) * real(K) + real(K) * real(N) + outputs + (bias ? real(N) : 0)),
          .vector_elements = bias ? outputs : 0};
}

// There are three passes: squares and their sum, the scaling by the row's factor, and the scaling
// by the weight.
Work rms_norm_work(int64_t M, int64_t columns) {
  const double elements = real(M) * real(columns);
  return {.hbm_bytes = kBytes * (2 * elements + real(columns)), .vector_elements = 3 * elements};
}

// Two products and a sum take three passes. Each row reads its head_dim sines and cosines.
Work rope_work(int64_t M, int64_t columns, int64_t head_dim) {
  const double elements = real(M) * real(columns);
  return {.hbm_bytes = kBytes * (2 * elements + real(M) * real(head_dim)),
          .vector_elements = 3 * elements};
}

Work attention_work(const ops::AttentionShape& shape, int64_t M, int64_t first) {
  const int64_t window = shape.sliding_window;
  // Counts the positions that any of the new tokens sees. With a window, the oldest one is window -
  // 1 before the first token.
  const int64_t visible = window > 0 ? std::min(first + M, window + M - 1) : first + M;
  const double scores = real(shape.num_attention_heads) * visible_positions(M, first, window);
  const double head_dim = real(shape.head_dim);
  const double queries = real(M) * real(shape.num_attention_heads) * head_dim;
  const double keys = real(shape.num_key_value_heads) * head_dim;
  // A score takes two products of 2 FLOPs per head dimension: Q·K, and its weight times V. The
  // softmax takes three passes on Vector (maximum, sum, scaling) and one exponential per score.
  return {.flops = 4 * scores * head_dim,
          // Queries are read and outputs written. Visible keys and values are read, and those of
          // the new tokens are also written.
          .hbm_bytes = kBytes * (2 * queries + 2 * keys * real(visible + M)),
          .vector_elements = 3 * scores,
          .scalar_elements = scores};
}

// The elements are read and written once.
Work gather_work(int64_t M, int64_t columns) {
  const double elements = real(M) * real(columns);
  return {.hbm_bytes = kBytes * 2 * elements, .vector_elements = elements};
}

Work add_work(int64_t M, int64_t columns) {
  const double elements = real(M) * real(columns);
  return {.hbm_bytes = kBytes * 3 * elements, .vector_elements = elements};
}

}  // namespace neuronmm::device
