#include "machine_limits.h"

#include <atomic>
#include <utility>
#include <vector>

#include <unistd.h>

#include "base/parallel.h"
#include "timing.h"

// The order matters: foreach_target.h compiles this file once per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "machine_limits.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "cpu/amx_tiles-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace neuronmm::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The number of independent sums. It hides a latency of 4 cycles at two instructions per cycle, and
// more.
inline constexpr int kSums = 12;

// Calls step(j) for the numbers j of all sums, without a loop, which could keep them in memory.
template <class Step, int... j>
HWY_INLINE void each_of(const Step& step, std::integer_sequence<int, j...> /*all*/) {
  (step(j), ...);
}
template <class Step>
HWY_INLINE void each_sum(const Step& step) {
  each_of(step, std::make_integer_sequence<int, kSums>());
}

// Runs `rounds` rounds of kSums multiply-adds and returns the number of floating-point operations.
// *result keeps the compiler from removing them.
double multiply_adds(int64_t rounds, float* result) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.999f), term = hn::Set(d, 1e-3f);
  hn::Vec<decltype(d)> s[kSums];
  for (int i = 0; i < kSums; ++i) s[i] = hn::Iota(d, static_cast<float>(i));
  for (int64_t i = 0; i < rounds; ++i) {
    each_sum([&](int j) HWY_ATTR { s[j] = hn::MulAdd(s[j], factor, term); });
  }
  for (int j = 1; j < kSums; ++j) s[0] = hn::Add(s[0], s[j]);
  *result = hn::GetLane(hn::SumOfLanes(d, s[0]));
  return static_cast<double>(rounds * kSums * 2) * static_cast<double>(hn::Lanes(d));
}

#if HWY_TARGET == HWY_AVX3
// The operand is passed by value, because an array element would go through memory.
HWY_INLINE __m512i byte_dot(__m512i sum, __m512i bytes) {
  asm("vpdpbusd %1, %1, %0" : "+v"(sum) : "v"(bytes));
  return sum;
}
HWY_INLINE __m512 bf16_dot(__m512 sum, __m512i pairs) {
  asm("vdpbf16ps %1, %1, %0" : "+v"(sum) : "v"(pairs));
  return sum;
}
#elif HWY_TARGET == HWY_AVX2
HWY_INLINE __m256i byte_dot(__m256i sum, __m256i bytes) {
  __m256i products;
  asm("vpmaddubsw %2, %2, %1\n\tvpaddw %1, %0, %0" : "+x"(sum), "=&x"(products) : "x"(bytes));
  return sum;
}
#endif

// Does the same with AVX512-BF16's sum of two products of bf16. Returns 0 on other CPUs.
double bf16_multiply_adds([[maybe_unused]] int64_t rounds, [[maybe_unused]] float* result) {
#if HWY_TARGET == HWY_AVX3
  __m512 s[kSums];
  for (int i = 0; i < kSums; ++i) s[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512i pairs = _mm512_set1_epi16(0x3C00);  // 2^-7
  for (int64_t i = 0; i < rounds; ++i) {
    each_sum([&](int j) HWY_ATTR { s[j] = bf16_dot(s[j], pairs); });
  }
  for (int j = 1; j < kSums; ++j) s[0] = _mm512_add_ps(s[0], s[j]);
  *result = _mm512_cvtss_f32(s[0]);
  return static_cast<double>(rounds * kSums * 2 * 32);
#else
  return 0.0;
#endif
}

// Does the same with products of bytes. AVX-512 VNNI sums up four products. AVX2 adds neighbouring
// products in 16 bits and then needs an addition. Returns 0 on other CPUs. The instructions are
// written in assembly, because Highway's AVX-512 target does not enable VNNI, and because the
// compiler cannot remove assembly.
double byte_multiply_adds([[maybe_unused]] int64_t rounds, [[maybe_unused]] float* result) {
#if HWY_TARGET == HWY_AVX3
  if (!__builtin_cpu_supports("avx512vnni")) return 0.0;
  __m512i s[kSums];
  for (int i = 0; i < kSums; ++i) s[i] = _mm512_set1_epi32(i);
  const __m512i bytes = _mm512_set1_epi8(1);
  for (int64_t i = 0; i < rounds; ++i) {
    each_sum([&](int j) HWY_ATTR { s[j] = byte_dot(s[j], bytes); });
  }
  for (int j = 1; j < kSums; ++j) s[0] = _mm512_add_epi32(s[0], s[j]);
  *result = static_cast<float>(_mm512_cvtsi512_si32(s[0]));
  return static_cast<double>(rounds * kSums * 2 * 64);
#elif HWY_TARGET == HWY_AVX2
  __m256i s[kSums];
  for (int i = 0; i < kSums; ++i) s[i] = _mm256_set1_epi16(static_cast<int16_t>(i));
  const __m256i bytes = _mm256_set1_epi8(1);
  for (int64_t i = 0; i < rounds; ++i) {
    each_sum([&](int j) HWY_ATTR { s[j] = byte_dot(s[j], bytes); });
  }
  for (int j = 1; j < kSums; ++j) s[0] = _mm256_add_epi16(s[0], s[j]);
  *result = static_cast<float>(_mm256_cvtsi256_si32(s[0]));
  return static_cast<double>(rounds * kSums * 2 * 32);
#else
  return 0.0;
#endif
}

// Does the same with AMX's tiles of 16 rows, of bf16 or of bytes.
template <bool kBytes>
double tile_multiply_adds([[maybe_unused]] int64_t rounds, [[maybe_unused]] float* result) {
#if HWY_TARGET == HWY_AVX3
  using Tiles = cpu::HWY_NAMESPACE::AmxTiles;
  cpu::HWY_NAMESPACE::PanelTiles<Tiles> tiles;
  tiles.configure(cpu::kMaxTileRows);
  for (int64_t i = 0; i < rounds; ++i) {
    if constexpr (kBytes) {
      Tiles::dot_bytes<0, 4, 6>();
      Tiles::dot_bytes<1, 4, 7>();
      Tiles::dot_bytes<2, 5, 6>();
      Tiles::dot_bytes<3, 5, 7>();
    } else {
      Tiles::dot_bf16<0, 4, 6>();
      Tiles::dot_bf16<1, 4, 7>();
      Tiles::dot_bf16<2, 5, 6>();
      Tiles::dot_bf16<3, 5, 7>();
    }
  }
  return static_cast<double>(rounds * 4 * 2 * 16 * 16 * (kBytes ? 64 : 32));
#else
  return 0.0;
#endif
}
double tile_bf16_multiply_adds(int64_t rounds, float* result) {
  return tile_multiply_adds<false>(rounds, result);
}
double tile_byte_multiply_adds(int64_t rounds, float* result) {
  return tile_multiply_adds<true>(rounds, result);
}

// Reads `words` words (a multiple of 4 vectors) once, from start to end.
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
HWY_EXPORT(bf16_multiply_adds);
HWY_EXPORT(byte_multiply_adds);
HWY_EXPORT(tile_bf16_multiply_adds);
HWY_EXPORT(tile_byte_multiply_adds);
HWY_EXPORT(read_words);

// Returns how many 1e9 operations per second `work(rounds, &result)` does on all threads together.
template <typename Work>
double giga_operations(const Work& work) {
  constexpr int64_t kRounds = 40'000;  // takes about 0.15 ms
  const int64_t threads = num_threads();
  std::vector<float> results(static_cast<size_t>(threads) * 16);  // a cache line each
  double operations = 0;
  const auto run = [&] {
    parallel_ranges(threads, [&](int64_t first, int64_t) {
      const double done = work(kRounds, &results[static_cast<size_t>(first) * 16]);
      if (first == 0) operations = done * static_cast<double>(threads);
    });
  };
  const double seconds = take_turns({run}, 300, [](size_t) {})[0].median;
  return operations / seconds / 1e9;
}

}  // namespace

MachineLimits measure_machine_limits() {
  const CacheFlusher memory;
  const Seconds read = take_turns({[&] { memory(); }}, 9, [](size_t) {})[0];
  const double fma = giga_operations(HWY_DYNAMIC_DISPATCH(multiply_adds));
  if (cpu::best_kernels().amx) {
    return {.fma_gflops = fma,
            .bf16_gflops = giga_operations(HWY_DYNAMIC_DISPATCH(tile_bf16_multiply_adds)),
            .int8_gops = giga_operations(HWY_DYNAMIC_DISPATCH(tile_byte_multiply_adds)),
            .read_gb_s = memory.gigabytes() / read.median};
  }
  return {.fma_gflops = fma,
          .bf16_gflops = __builtin_cpu_supports("avx512bf16")
                             ? giga_operations(HWY_DYNAMIC_DISPATCH(bf16_multiply_adds))
                             : fma,
          .int8_gops = giga_operations(HWY_DYNAMIC_DISPATCH(byte_multiply_adds)),
          .read_gb_s = memory.gigabytes() / read.median};
}

CacheFlusher::CacheFlusher() {
  constexpr int64_t kMinBytes = int64_t{128} << 20;
  const int64_t bytes = std::max<int64_t>(kMinBytes, 4 * sysconf(_SC_LEVEL3_CACHE_SIZE));
  count_ = bytes / 4;
  words_ = cpu::Buffer<uint32_t>(count_, cpu::Pages::kHuge);
  std::fill_n(words_.data(), count_, 1u);
}

void CacheFlusher::operator()() const {
  std::atomic<uint32_t> total = 0;  // used, so that the compiler must read
  parallel_ranges(count_ >> 12, [&](int64_t first, int64_t last) {
    total += HWY_DYNAMIC_DISPATCH(read_words)(words_.data() + (first << 12), (last - first) << 12);
  });
}

double CacheFlusher::gigabytes() const { return static_cast<double>(count_) * 4 / 1e9; }

}  // namespace neuronmm::bench
#endif  // HWY_ONCE
