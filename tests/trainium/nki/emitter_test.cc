// Checks the emitted source: names, loops, ragged edges and buffers; and what the emitter refuses.

#include "trainium/nki/emitter.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "trainium/kernels/registry.h"
#include "trainium/kernels/shapes.h"
#include "trainium/nki/driver.h"
#include "trainium/nki/fold.h"
#include "trainium/nki/peel.h"
#include "trainium/tile/builder.h"
#include "trainium/tile/checker.h"
#include "trainium/tile/counts.h"

namespace neuronmm::nki {
namespace {

using tile::all;
using tile::at;
using tile::BufferId;
using tile::Builder;
using tile::one;
using tile::Program;
using tile::Step;
using tile::Tile;
using tile::upto;

constexpr DType kBF16 = DType::kBF16;

// Returns a program y [M, N] = x [M, N], in blocks of BM rows and tiles of 128.
Program copy_program(int64_t M, int64_t N, int64_t BM) {
  Builder b("copy");
  const BufferId x = b.input("x", kBF16, {M, N}), y = b.output("y", kBF16, {M, N});
  b.loop("m", M, Step(BM, "BM"), [&](const Tile& m) {
    const BufferId block = b.sbuf("block", kBF16, {128, tile::ceil_div(m.size.max, 128), N}, 2);
    b.loop("mt", m, 128, [&](const Tile& mt) {
      b.load(at(block, {upto(mt), one(mt.index()), all(N)}), at(x, {mt, all(N)}));
      b.store(at(y, {mt, all(N)}), at(block, {upto(mt), one(mt.index()), all(N)}));
    });
  });
  return b.finish();
}

Description describe(int64_t M, int64_t N) {
  return {.summary = "Y = X",
          .provenance = "By a test",
          .reference = "x",
          .dimensions = {{"M", M}, {"N", N}},
          .operands = {{"x", {"M", "N"}}, {"y", {"M", "N"}}},
          .blocks = {{"BM", 2, "row tiles in a block"}},
          .sbuf_bytes_per_partition = 176 * 1024};
}

std::string source(const Program& program, const Description& description) {
  const Result<std::string> text = emit(program, description);
  EXPECT_TRUE(text.ok()) << (text.ok() ? "" : text.error().message);
  return text.ok() ? *text : "";
}

void expect_lines(const std::string& text, std::initializer_list<std::string_view> lines) {
  for (const std::string_view line : lines) {
    EXPECT_NE(text.find(fmt::format("{}\n", line)), text.npos) << line << "\nis not in\n" << text;
  }
}

void expect_without(const std::string& text, std::string_view part) {
  EXPECT_EQ(text.find(part), text.npos) << part << "\nis in\n" << text;
}

TEST(Emitter, SizesStepsAndLayoutsHaveNames) {
  const std::string text = source(copy_program(512, 640, 256), describe(512, 640));
  EXPECT_TRUE(text.starts_with("\"\"\"Y = X.\n"));
  expect_lines(
      text, {"import nki", "import nki.isa as nisa", "import nki.language as nl", "M, N = 512, 640",
             "BM = 2 * P  # row tiles in a block", "@nki.jit", "def copy(x):", "        y = x",
             "        x: (M, N) bf16", "    assert x.shape == (M, N) and x.dtype == nl.bfloat16",
             "    y = nl.ndarray((M, N), dtype=nl.bfloat16, buffer=nl.shared_hbm)",
             "    for m in range(M // BM):",
             "        block = nl.ndarray((P, BM // P, N), dtype=nl.bfloat16, "
             "buffer=nl.sbuf)  # rotates: 2",
             "        for mt in range(BM // P):",
             "            nisa.dma_copy(dst=block[:, mt, :], src=x[nl.ds(m * BM + mt * P, "
             "P), :])",
             "    return y"});
  expect_without(text, "min(");
  expect_without(text, "ceil_div");
  expect_without(text, "F = 512");
}

TEST(Emitter, RaggedEdgesAreTheSmallerOfTileAndRest) {
  const std::string text = source(copy_program(500, 640, 256), describe(500, 640));
  expect_lines(text, {"def ceil_div(a, b):", "    for m in range(ceil_div(M, BM)):",
                      "        m_size = min(BM, M - m * BM)",
                      "        for mt in range(ceil_div(m_size, P)):",
                      "            mt_size = min(P, m_size - mt * P)",
                      "            nisa.dma_copy(dst=block[0:mt_size, mt, :], "
                      "src=x[nl.ds(m * BM + mt * P, mt_size), :])"});
}

// A loop of one iteration becomes no loop, and a single tile needs no min. M and N have different
// names although they are equal.
TEST(Emitter, LoopsOfOneIterationAreLeftOut) {
  const std::string text = source(copy_program(100, 100, 256), describe(100, 100));
  expect_lines(text, {"    block = nl.ndarray((P, 1, N), dtype=nl.bfloat16, buffer=nl.sbuf)  # "
                      "rotates: 2",
                      "    nisa.dma_copy(dst=block[0:M, 0, :], src=x)"});
  expect_without(text, "    for ");
  expect_without(text, "BM =");
}

TEST(Emitter, FoldingDoesNotChangeTheCounts) {
  for (const kernels::Kernel& kernel : kernels::kernels()) {
    const Program program =
        kernels::make_program(kernel, kernels::suited(kernel, {130, 200, 100, 600, 50}),
                              kernels::tiling_of(kernel, {}).value(), {})
            .value();
    EXPECT_EQ(tile::count(program), tile::count(fold_single_trips(program))) << kernel.name;
  }
}

TEST(Emitter, SourceLengthDoesNotDependOnTheShape) {
  const auto lines = [](int64_t M) {
    const std::string text = source(copy_program(M, 640, 256), describe(M, 640));
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines(512), lines(int64_t{1} << 20));
  EXPECT_EQ(lines(500), lines((int64_t{1} << 20) - 1));
}

TEST(Emitter, CarriedLoopsSumsAndMemoriesAreEmitted) {
  Builder b("sum");
  const BufferId x = b.input("x", DType::kF32, {512, 128}),
                 w = b.input("w", DType::kF32, {512, 512});
  const BufferId y = b.output("y", DType::kF32, {128, 512});
  const BufferId copy = b.scratch("copy", DType::kF32, {128, 512});
  const BufferId psum = b.psum("psum", {128, 512}, 1);
  b.loop(
      "k", 512, 128,
      [&](const Tile& k) {
        const BufferId xs = b.sbuf("xs", DType::kF32, {128, 128}, 2);
        const BufferId ws = b.sbuf("ws", DType::kF32, {128, 512}, 1);
        b.load(at(xs, {upto(k), all(128)}), at(x, {k, all(128)}));
        b.load(at(ws, {upto(k), all(512)}), at(w, {k, all(512)}));
        b.matmul(at(psum, {all(128), all(512)}), at(xs, {all(128), all(128)}),
                 at(ws, {all(128), all(512)}), {k});
      },
      Builder::Iterations::kCarried);
  const BufferId tile = b.sbuf("tile", DType::kF32, {128, 512}, 1);
  b.zero(at(tile, {all(128), all(512)}));
  b.add(at(tile, {all(128), all(512)}), at(tile, {all(128), all(512)}),
        at(psum, {all(128), all(512)}));
  b.store(at(copy, {all(128), all(512)}), at(tile, {all(128), all(512)}));
  b.load(at(tile, {all(128), all(512)}), at(copy, {all(128), all(512)}));
  b.store(at(y, {all(128), all(512)}), at(tile, {all(128), all(512)}));
  const std::string text = source(b.finish(), {});
  expect_lines(text, {"    for k in range(4):", "def sum(x, w):",
                      "    copy = nl.ndarray((P, F), dtype=nl.float32, buffer=nl.private_hbm)",
                      "    psum = nl.ndarray((P, F), dtype=nl.float32, buffer=nl.psum)",
                      "        nisa.nc_matmul(dst=psum, stationary=xs, moving=ws, "
                      "accumulate=(k > 0))",
                      "    nisa.memset(dst=tile, value=0.0)",
                      "    nisa.tensor_tensor(dst=tile, data1=tile, data2=psum, op=nl.add)",
                      "    nisa.dma_copy(dst=copy, src=tile)"});
}

// Python has one scope per function, so every buffer needs its own name in it.
TEST(Emitter, NamesDoNotHideOneAnother) {
  Builder b("lambda");
  const BufferId x = b.input("x", kBF16, {512, 128}), y = b.output("y", kBF16, {512, 128});
  const auto move = [&](BufferId from, BufferId to, const Tile& m) {
    const BufferId inner = b.sbuf("tile", kBF16, {128, 128});
    b.load(at(inner, {upto(m), all(128)}), at(from, {m, all(128)}));
    b.store(at(to, {m, all(128)}), at(inner, {upto(m), all(128)}));
  };
  const BufferId outer = b.sbuf("tile", kBF16, {128, 128});
  b.load(at(outer, {all(128), all(128)}), at(x, {all(128), all(128)}));
  b.loop("P", 512, 256, [&](const Tile& m) {
    b.loop("P", m, 128, [&](const Tile& mt) {
      move(x, y, mt);
      b.store(at(y, {mt, all(128)}), at(outer, {all(128), all(128)}));
    });
  });
  b.loop("P", 512, 128, [&](const Tile& m) { move(x, y, m); });
  const std::string text = source(b.finish(), {});
  expect_lines(text, {"def lambda_(x):", "    for P2 in range(2):", "        for P3 in range(2):",
                      "            tile2 = nl.ndarray((P, P), dtype=nl.bfloat16, buffer=nl.sbuf)",
                      "    for P2 in range(4):",
                      "        tile3 = nl.ndarray((P, P), dtype=nl.bfloat16, buffer=nl.sbuf)"});
}

// In the legacy dialect, results are assigned, loops have kinds, and no size depends on a loop.
TEST(Emitter, TheLegacyDialectPeelsRaggedEnds) {
  Description description = describe(500, 640);
  description.release = newest_release("trn1");
  const std::string text = source(copy_program(500, 640, 256), description);
  expect_lines(text, {"import neuronxcc.nki as nki", "import neuronxcc.nki.isa as nisa",
                      "    assert tuple(x.shape) == (M, N)",
                      "    block = nl.ndarray((nl.par_dim(P), 2, N), dtype=nl.bfloat16, "
                      "buffer=nl.sbuf)  # rotates: 2",
                      "    for mt in nl.affine_range(2):",
                      "        block[:, mt, :] = nl.load(x[nl.ds(mt * P, P), :])",
                      "        nl.store(y[nl.ds(mt * P, P), :], value=block[:, mt, :])",
                      "    block[:, 0, :] = nl.load(x[nl.ds(256, P), :])",
                      "    block[0:116, 1, :] = nl.load(x[nl.ds(384, 116), :])",
                      "    nl.store(y[nl.ds(384, 116), :], value=block[0:116, 1, :])"});
  expect_without(text, "min(");
}

TEST(Emitter, PeelingDoesNotChangeTheCounts) {
  for (const kernels::Kernel& kernel : kernels::kernels()) {
    for (const int64_t M : {1, 130, 1200}) {
      const Program program =
          kernels::make_program(kernel, kernels::suited(kernel, {M, 900, 300, 2100, 200}),
                                kernels::tiling_of(kernel, {}).value(), {})
              .value();
      const Result<Program> peeled = peel_ragged_loops(program);
      ASSERT_TRUE(peeled.ok()) << peeled.error().message;
      EXPECT_TRUE(tile::check_structure(*peeled).ok()) << kernel.name;
      EXPECT_EQ(tile::count(program), tile::count(*peeled)) << kernel.name;
      if (!kernel.experts) {
        EXPECT_TRUE(check_sums(program).ok()) << kernel.name;
      }
    }
  }
}

// The program writes a second sum into the same memory before it is allocated again.
TEST(Emitter, TheLegacyDialectRefusesTwoSumsInOneInstance) {
  Builder b("twice");
  const BufferId x = b.input("x", kBF16, {128, 512}), y = b.output("y", kBF16, {128, 512});
  const BufferId tile = b.sbuf("tile", kBF16, {128, 512});
  b.load(at(tile, {all(128), all(512)}), at(x, {all(128), all(512)}));
  const BufferId psum = b.psum("psum", {128, 512}, 1);
  b.loop("m", 512, 128, [&](const Tile&) {
    b.matmul(at(psum, {all(128), all(512)}), at(tile, {all(128), all(128)}),
             at(tile, {all(128), all(512)}), {});
    b.store(at(y, {all(128), all(512)}), at(tile, {all(128), all(512)}));
  });
  const Program program = b.finish();
  EXPECT_TRUE(emit(program, {}).ok());
  Description description;
  description.release = newest_release("trn1");
  const Result<std::string> legacy = emit(program, description);
  ASSERT_FALSE(legacy.ok());
  EXPECT_NE(legacy.error().message.find("psum holds more than one sum"), std::string::npos);
}

// Returns a program that loads two blocks of two row tiles of x, with one transfer per block. Of
// x's 600 rows, 512 lie in whole tiles.
Program row_tiles_program() {
  Builder b("tiles");
  const BufferId x = b.input("x", kBF16, {600, 640}), y = b.output("y", kBF16, {512, 640});
  const BufferId tiles = b.row_tiles("x_tiles", x);
  b.loop("m", 512, Step(256, "BM"), [&](const Tile& m) {
    const BufferId block = b.sbuf("block", kBF16, {128, 2, 640}, 2);
    b.load(at(block, {all(128), all(2), all(640)}),
           at(tiles, {all(128), {m.index() * 2, {.max = 2}}, all(640)}));
    b.loop("mt", m, 128, [&](const Tile& mt) {
      b.store(at(y, {mt, all(640)}), at(block, {all(128), one(mt.index()), all(640)}));
    });
  });
  return b.finish();
}

TEST(Emitter, RowTilesAreAPermutedViewOrIndexGrids) {
  Description description = describe(512, 640);
  description.operands = {{"x", {"R", "N"}}, {"y", {"M", "N"}}};
  description.dimensions = {{"R", 600}, {"M", 512}, {"N", 640}};
  const std::string text = source(row_tiles_program(), description);
  expect_lines(text,
               {"    x_tiles = x[0:512, :].reshape((4, P, N)).permute((1, 0, 2))",
                "        nisa.dma_copy(dst=block, src=x_tiles[:, nl.ds(m * (BM // P), 2), :])"});
  description.release = newest_release("trn1");
  const std::string legacy = source(row_tiles_program(), description);
  expect_without(legacy, "x_tiles");
  expect_lines(legacy, {"            x[(nl.arange(2)[None, :, None] + m * (BM // P)) * P + "
                        "nl.arange(P)[:, None, None], nl.arange(N)[None, None, :]],"});
}

// Returns a program that loads two tiles of each of two matrices, and the rows after their tiles.
// Numbers in SBUF tell which matrices they are.
Program indexed_program() {
  Builder b("picks");
  const BufferId w = b.input("w", kBF16, {900, 640});
  const BufferId numbers = b.input("numbers", DType::kI32, {1, 2});
  const BufferId y = b.output("y", kBF16, {128, 640});
  const BufferId tiles = b.matrix_row_tiles("w_tiles", w, 300);
  const BufferId matrices = b.matrices("w_matrices", w, 300);
  const BufferId number = b.sbuf("number", DType::kI32, {1, 2});
  b.load(at(number, {all(1), all(2)}), at(numbers, {all(1), all(2)}));
  b.loop("d", 2, 1, [&](const Tile& d) {
    const tile::Access index = at(number, {all(1), {d.start, {.max = 1}}});
    const BufferId block = b.sbuf("block", kBF16, {128, 3, 640}, 2);
    b.load(at(block, {all(128), {0, {.max = 2}}, all(640)}),
           tile::at_index(tiles, index, {all(128), all(2), all(640)}));
    b.load(at(block, {all(44), one(2), all(640)}),
           tile::at_index(matrices, index, {{256, {.max = 44}}, all(640)}));
    b.store(at(y, {all(128), all(640)}), at(block, {all(128), one(1), all(640)}));
  });
  return b.finish();
}

// An iteration loads its number into a register once. The legacy dialect has no such loads.
TEST(Emitter, AnIndexIsLoadedIntoARegister) {
  Description description;
  description.dimensions = {{"R", 900}, {"N", 640}};
  description.operands = {{"w", {"R", "N"}}};
  const std::string text = source(indexed_program(), description);
  expect_lines(
      text, {"    assert numbers.shape == (1, 2) and numbers.dtype == nl.int32",
             "    w_tiles = w.reshape((3, 300, N))[:, 0:256, :].reshape((3, 2, P, N)).permute((0, "
             "2, 1, 3))",
             "    w_matrices = w.reshape((3, 300, N))",
             "    number = nl.ndarray((1, 2), dtype=nl.int32, buffer=nl.sbuf)",
             "    nisa.dma_copy(dst=number, src=numbers)",
             "        number_register = nisa.register_alloc(number[:, nl.ds(d, 1)])",
             "        nisa.dma_copy(dst=block[:, 0:2, :], src=w_tiles.select(0, number_register))",
             "            src=w_matrices.select(0, number_register)[nl.ds(256, 44), :],"});
  const std::string statement = "register_alloc(";
  EXPECT_EQ(text.find(statement), text.rfind(statement));
  description.release = newest_release("trn1");
  const Result<std::string> legacy = emit(indexed_program(), description);
  ASSERT_FALSE(legacy.ok());
  EXPECT_NE(legacy.error().message.find("\"load block\" finds its place by a number in the data"),
            std::string::npos)
      << legacy.error().message;
}

TEST(Emitter, AMatmulThatAlwaysAddsSaysSo) {
  Builder b("adds");
  const BufferId x = b.input("x", kBF16, {128, 512}), y = b.output("y", kBF16, {128, 512});
  const BufferId tile = b.sbuf("tile", kBF16, {128, 512}), psum = b.psum("psum", {128, 512}, 1);
  const auto whole = [](BufferId id) { return at(id, {all(128), all(512)}); };
  const auto left = at(tile, {all(128), all(128)});
  b.load(whole(tile), whole(x));
  b.matmul(whole(psum), left, whole(tile), {});
  b.matmul_adding(whole(psum), left, whole(tile));
  b.copy(whole(tile), whole(psum));
  b.store(whole(y), whole(tile));
  const Program program = b.finish();
  const std::string text = source(program, {});
  EXPECT_NE(text.find("accumulate=False"), text.npos);
  EXPECT_NE(text.find("accumulate=True"), text.npos);
  Description description;
  description.release = newest_release("trn1");
  const std::string legacy = source(program, description);
  EXPECT_NE(legacy.find("psum[...] += "), legacy.npos);
}

TEST(Releases, EveryDeviceHasOneThatFits) {
  EXPECT_EQ(newest_release("trn1").sdk, "2.28");
  EXPECT_EQ(newest_release("trn1").dialect, Dialect::kNeuronxcc);
  for (const char* device : {"trn2", "trn3"}) {
    EXPECT_EQ(newest_release(device).sdk, "2.33");
    EXPECT_EQ(newest_release(device).dialect, Dialect::kNki);
  }
  for (const std::string& name : release_names()) {
    const Release release = find_release(name).value();
    EXPECT_EQ(release.sdk, name);
    EXPECT_EQ(release.dialect, name < "2.29" ? Dialect::kNeuronxcc : Dialect::kNki) << name;
    for (const char* device : {"trn1", "trn2", "trn3"}) {
      const bool fits = release.dialect == newest_release(device).dialect;
      EXPECT_EQ(why_unsuited(release, device).find(device) == std::string::npos, fits) << name;
    }
  }
  EXPECT_FALSE(find_release("2.3"));
}

// The head of the source names the release that it is written for.
TEST(Releases, TheSourceNamesItsRelease) {
  Description description = describe(512, 640);
  const Program program = copy_program(512, 640, 256);
  for (const std::string& name : release_names()) {
    description.release = find_release(name).value();
    const std::string text = source(program, description);
    EXPECT_NE(text.find(name), text.npos) << text;
    EXPECT_EQ(text.find("affine_range") == text.npos, name >= "2.29") << text;
  }
}

// If names would hold more SBUF than there is, the source releases them after their last use.
TEST(Emitter, BuffersAreReleasedIfMemoryIsFull) {
  Description description = describe(512, 640);
  const Program program = copy_program(512, 640, 256);  // 2 instances of 2 x 640 elements.
  description.sbuf_bytes_per_partition = 2 * 2 * 640 * 2;
  expect_without(source(program, description), "None");
  description.sbuf_bytes_per_partition -= 1;
  const std::string text = source(program, description);
  expect_lines(text, {"            nisa.dma_copy(dst=y[nl.ds(m * BM + mt * P, P), :], "
                      "src=block[:, mt, :])\n        block = None"});
}

TEST(Emitter, OperandsWithoutABufferAreRefused) {
  const Program program = copy_program(512, 640, 256);
  Description description = describe(512, 640);
  description.operands.push_back({"z", {"M"}});
  ASSERT_FALSE(emit(program, description).ok());
  EXPECT_NE(emit(program, description).error().message.find("no buffer z"), std::string::npos);
  description.operands.back() = {"x", {"M"}};
  EXPECT_FALSE(emit(program, description).ok());
  Program broken = program;
  broken.num_loops = 0;
  EXPECT_FALSE(emit(broken, describe(512, 640)).ok());
}

// Python parses the source, including the driver.
TEST(Emitter, TheSourceIsValidPython) {
  if (std::system("python3 -c '' 2>/dev/null") != 0)
    GTEST_SKIP() << "no python3: tools/install_dependencies.sh test";
  const auto file =
      std::filesystem::temp_directory_path() / fmt::format("neuronmm-emitter-{}.py", getpid());
  for (const int64_t M : {100, 500, 512}) {
    const Program program = copy_program(M, 640, 256);
    std::ofstream(file) << source(program, describe(M, 640))
                        << emit_driver(program, describe(M, 640), Driver::kTorch, 0.01);
    const std::string parse = fmt::format(
        "python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' {}", file.string());
    EXPECT_EQ(std::system(parse.c_str()), 0);
  }
  std::filesystem::remove(file);
}

TEST(Driver, TheDriverHasInputsReferenceAndTolerance) {
  const Program program = copy_program(512, 640, 256);
  const std::string text = emit_driver(program, describe(512, 640), Driver::kTorch, 0.0125);
  expect_lines(text,
               {"def reference(x):", "    return x", "    x = torch.randn(M, N).to(torch.bfloat16)",
                "    inputs = [x]", "    tolerance = 0.0125", "    found = copy(*on_device)",
                "if __name__ == \"__main__\":"});
}

}  // namespace
}  // namespace neuronmm::nki
