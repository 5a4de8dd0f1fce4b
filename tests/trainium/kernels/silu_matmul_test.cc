// The worked example of docs/kernels.md: it does what the page says, and the page quotes what
// stands between the marks here.

#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "oracle.h"
#include "places.h"
#include "trainium/kernels/blocks.h"
#include "trainium/kernels/registry.h"
#include "trainium/simulator/interpreter.h"
#include "trainium/tile/checker.h"
#include "trainium/tile/counts.h"

namespace neuronmm::kernels {
namespace {

using tile::Access;
using tile::at;
using tile::BufferId;
using tile::Builder;
using tile::ceil_div;
using tile::one;
using tile::Tile;
using tile::upto;

// [kernel]
// Y [M, N] = silu(X·W) from X^T [K, M] and W [K, N]. A strip of W, K x BN, stays in SBUF while the
// rows of X go by.
tile::Program silu_matmul(const KernelShape& shape, const Tiling& tiling,
                          const KernelOptions& options) {
  Builder b("silu_matmul");
  const BufferId x = b.input("x", options.dtype, {shape.K, shape.M});
  const BufferId w = b.input("w", options.dtype, {shape.K, shape.N});
  const BufferId y = b.output("y", options.dtype, {shape.M, shape.N});
  const Context c(b, options);
  const Tile k = whole(shape.K);
  b.loop("n", shape.N, block_step(tiling, "BN", 512), [&](const Tile& n) {
    const BufferId w_strip = load_block(c, "w_strip", w, k, n, 1);
    b.loop("m", shape.M, 128, [&](const Tile& m) {
      const BufferId x_strip = load_block(c, "x_strip", x, k, m, 2);
      b.loop("nt", n, 512, [&](const Tile& nt) {
        const Access sums = c.new_psum(upto(m), upto(nt));
        b.loop("kt", k, 128, [&](const Tile& kt) {
          b.matmul(sums, at(x_strip, {upto(kt), one(kt.index()), upto(m)}),
                   at(w_strip, {upto(kt), one(kt.index()), nt.in(n)}), {kt});
        });
        const Access y_tile = at(b.sbuf("y_tile", c.dtype, {128, 512}, 2), {upto(m), upto(nt)});
        b.silu(y_tile, sums);
        b.store(at(y, {m, nt}), y_tile);
      });
    });
  });
  return b.finish();
}
// [/kernel]

// [cost]
Cost silu_matmul_cost(const KernelShape& p, const Tiling& tiling, const KernelOptions& options) {
  const int64_t s = dtype_size_bytes(options.dtype);
  const int64_t column_blocks = ceil_div(p.N, tiling["BN"] * 512);
  return {.hbm_read_bytes = s * (p.M * p.K * column_blocks + p.K * p.N),
          .hbm_write_bytes = s * p.M * p.N,
          .flops = 2 * p.M * p.K * p.N,
          .nc_matmuls = ceil_div(p.M, 128) * ceil_div(p.K, 128) * ceil_div(p.N, 512)};
}
// [/cost]

Kernel silu_matmul_kernel() {
  using tile::HbmRole;
  // clang-format off
  return
      // [entry]
      {"silu_matmul",
       "Y = silu(X·W), a strip of W in SBUF",
       {{"x", "[K, M]", HbmRole::kInput},
        {"w", "[K, N]", HbmRole::kInput},
        {"y", "[M, N]", HbmRole::kOutput}},
       {{"BN", 2, "column tiles of 512 in a strip of W", 'N', 512}},
       "s·(M·K·⌈N/BN⌉ + K·N + M·N)",
       "2·M·K·N",
       "⌈M/128⌉·⌈K/128⌉·⌈N/512⌉",
       false,  // no rank: the shape is M,K,N
       false,  // X^T only
       silu_matmul,
       silu_matmul_cost,
       "silu(x @ w)"}
      // [/entry]
      ;
  // clang-format on
}

std::string read(const std::string& path) {
  std::ifstream file(source_dir() / path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The lines between "// [name]" and "// [/name]", without the indentation of the first mark.
std::string marked(const std::string& source, const std::string& name) {
  const size_t mark = source.find(fmt::format("// [{}]\n", name));
  const size_t begin = source.find('\n', mark) + 1;
  const size_t line = source.rfind('\n', mark) + 1;
  const size_t end = source.rfind('\n', source.find(fmt::format("// [/{}]\n", name))) + 1;
  std::istringstream lines(source.substr(begin, end - begin));
  std::string text;
  for (std::string each; std::getline(lines, each);) {
    text += (each.empty() ? each : each.substr(mark - line)) + "\n";
  }
  return text;
}

TEST(WorkedExample, TheDocumentQuotesIt) {
  const std::string page = read("docs/kernels.md");
  const std::string source = read("tests/trainium/kernels/silu_matmul_test.cc");
  for (const char* part : {"kernel", "cost", "entry"}) {
    const std::string quoted = marked(source, part);
    EXPECT_NE(page.find(quoted), std::string::npos) << "docs/kernels.md does not quote:\n"
                                                    << quoted;
  }
}

TEST(WorkedExample, ValuesCountsAndRules) {
  constexpr uint32_t kSeed = 7;
  std::mt19937 random(kSeed);
  const auto size = [&](int64_t most) {
    return std::uniform_int_distribution<int64_t>(1, most)(random);
  };
  const Kernel kernel = silu_matmul_kernel();
  for (int i = 0; i < 30; ++i) {
    const KernelShape shape{.M = size(300), .K = size(300), .r = 0, .N = size(1500)};
    const Tiling tiling = tiling_of(kernel, {{"BN", size(3)}}).value();
    const KernelOptions options{.dtype = i % 2 == 0 ? DType::kBF16 : DType::kF32};
    SCOPED_TRACE(
        fmt::format("seed {}, case {}: {} x {} x {}", kSeed, i, shape.M, shape.K, shape.N));
    const tile::Program program = make_program(kernel, shape, tiling, options).value();
    const tile::CheckReport report = tile::check(program, {});
    EXPECT_TRUE(report.ok() && report.fits()) << report.violations.size();

    const tile::Counts counts = tile::count(program);
    const Cost cost = kernel.cost(shape, tiling, options);
    EXPECT_EQ(counts.hbm_read_bytes, cost.hbm_read_bytes);
    EXPECT_EQ(counts.hbm_write_bytes, cost.hbm_write_bytes);
    EXPECT_EQ(counts.matmul_flops, cost.flops);
    EXPECT_EQ(counts.nc_matmuls, cost.nc_matmuls);

    const double scale = 1.0 / std::sqrt(static_cast<double>(shape.K));
    const Matrix x = random_matrix(shape.M, shape.K, 1.0, options.dtype, random);
    const Matrix w = random_matrix(shape.K, shape.N, scale, options.dtype, random);
    const Matrix x_t = transpose(x);
    const auto found = simulator::interpret(program, {{"x", x_t.view()}, {"w", w.view()}});
    ASSERT_TRUE(found.ok()) << found.error().message;
    const Bounded sums = multiply(Bounded(x), w, {DType::kF32, DType::kF32, 1});
    const Matrix& y = found.value().outputs.at("y");
    const double unit = options.dtype == DType::kBF16 ? kBf16 : 16 * kFp32;
    for (size_t at = 0; at < sums.value.size(); ++at) {
      const double s = sums.value[at], silu = s / (1 + std::exp(-s));
      const double bound = 1.1 * sums.error[at] + 1.02 * unit * (std::fabs(silu) + sums.error[at]);
      ASSERT_LE(std::fabs(static_cast<double>(y.data()[at]) - silu), bound) << at;
    }
  }
}

}  // namespace
}  // namespace neuronmm::kernels
