#include "cpu/amx.h"

#include <random>
#include <vector>

#include "cpu/matmul.h"
#include "ops/quantize.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace neuronmm::cpu {

bool amx_granted() {
#if defined(__x86_64__) && defined(__linux__)
  // Documented: CPUID leaf 7, EDX, and the bits for the tiles' configuration and data in XCR0
  // (Intel Software Developer's Manual, volume 2A, CPUID, and volume 1, chapter 13).
  constexpr unsigned kAmx = 1u << 22 | 1u << 24 | 1u << 25;  // bf16, tiles, int8
  constexpr unsigned kTileStates = 3u << 17;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kAmx) != kAmx) return false;
  unsigned xcr0 = 0, high = 0;
  asm volatile("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0));
  if ((xcr0 & kTileStates) != kTileStates) return false;
  // Documented: ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA (Linux, Documentation/arch/x86/xstate.rst).
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

namespace {

Matrix random_matrix(int64_t rows, int64_t columns) {
  std::minstd_rand random;
  std::uniform_real_distribution<float> value(-1.0f, 1.0f);
  Matrix m(rows, columns);
  for (int64_t i = 0; i < rows * columns; ++i) m.data()[i] = value(random);
  return m;
}

// Returns x times w, computed with one of the tables. The rows are packed as that table wants them.
std::vector<float> product(const Kernels& kernels, ConstMatrixView x, const PackedMatrix& w) {
  std::vector<float> y(static_cast<size_t>(x.rows * w.n()));
  Buffer<float> storage;
  const Product products[] = {{.a = pack_rows(kernels, x, w.type(), storage),
                               .w = &w,
                               .bias = nullptr,
                               .y = {y.data(), x.rows, w.n()}}};
  multiply(kernels, products);
  return y;
}

}  // namespace

// The test product is deeper than two groups and wider than a panel, and neither is a whole number
// of them. Full and partial groups and panels are all compared, for every number of rows up to two
// tiles of rows.
bool multiply_alike(const Kernels& one, const Kernels& other) {
  const int64_t columns = kPanel + 8, depth = 2 * kQuantGroup + 44, kMostRows = kMaxTileRows + 2;
  const Matrix w_t = random_matrix(columns, depth), x = random_matrix(kMostRows, depth);
  // The weights' values do not matter, as long as both tables read the same ones.
  const std::vector<double> w(w_t.data(), w_t.data() + columns * depth);
  const ops::QuantizedWeight weight = ops::quantize(w.data(), columns, depth);
  const PackedMatrix packed(weight.view());
  for (int64_t rows = 1; rows <= kMostRows; ++rows) {
    const ConstMatrixView some = x.view().row_range(0, rows);
    if (product(one, some, packed) != product(other, some, packed)) return false;
  }
  return true;
}

}  // namespace neuronmm::cpu
