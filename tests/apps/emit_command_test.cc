// The tests in this file run `neuronmm emit` as a user does. They check the file that it writes and
// every kind of bad input.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "run_program.h"

namespace {

namespace fs = std::filesystem;
using neuronmm::apps::expect;
using neuronmm::apps::neuronmm;
using neuronmm::apps::read;

class EmitCommand : public neuronmm::apps::ProgramTest {
 protected:
  std::string emit(const std::string& rest, const std::string& file = "kernel.py") const {
    return "emit " + rest + " -o " + path(file);
  }
  bool empty() const { return fs::is_empty(folder_); }
  static bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  // Expects that Python parses every file that the test has written.
  void expect_all_parse() const {
    if (std::system("python3 -c '' 2>/dev/null") != 0) return;
    const std::string parse =
        "python3 -c 'import ast, sys; [ast.parse(open(f).read(), f) for f in sys.argv[1:]]' ";
    EXPECT_EQ(std::system((parse + folder_.string() + "/*").c_str()), 0);
  }
};

TEST_F(EmitCommand, WritesTheKernelWithItsNamesAndItsCommand) {
  expect(neuronmm(emit(
             "xuv --shape 1024,2048,512,4096 --device trn1 --tiling BM=2,BK=2,Bu=2,Br=2,BN=2")),
         0, {"kernel.py", "BM=2,BK=2,Bu=2,Br=2,BN=2"});
  const std::string text = read(path("kernel.py"));
  for (const char* part :
       {"emit xuv --shape 1024,2048,512,4096", "M, K, r, N = 1024, 2048, 512, 4096\n",
        "BN = 2 * F  # column tiles of 512 in a block of V\n", "def xuv(x, u, v):\n",
        "        y = x @ u @ v\n", "for m in nl.affine_range(M // BM):\n",
        "for k in nl.sequential_range(K // BK):\n",
        "strip = nl.ndarray((nl.par_dim(P), r // P, BM), dtype=nl.bfloat16, buffer=nl.sbuf)\n"}) {
    EXPECT_TRUE(contains(text, part)) << part;
  }
  EXPECT_FALSE(contains(text, "__main__"));
  expect_all_parse();
}

// By default a kernel is for the newest release that has the device. Another dialect gives a
// warning.
TEST_F(EmitCommand, TheDefaultReleaseFollowsTheDevice) {
  const std::string xuv = "xuv --shape 256,256,128,512 --force ";
  expect(neuronmm(emit(xuv + "--device trn1")), 0, {});
  EXPECT_TRUE(contains(read(path("kernel.py")), "import neuronxcc.nki as nki\n"));
  EXPECT_TRUE(contains(read(path("kernel.py")), "--device trn1 --sdk 2.28"));
  for (const std::string release : {"", "--sdk 2.29 ", "--sdk 2.33 "}) {
    const Outcome outcome = neuronmm(emit(xuv + release + "--device trn2"));
    expect(outcome, 0, {});
    EXPECT_FALSE(contains(outcome.output, "warning"));
    const std::string text = read(path("kernel.py"));
    EXPECT_TRUE(contains(text, "import nki\n"));
    EXPECT_TRUE(contains(text, " in range("));
    EXPECT_FALSE(contains(text, "affine_range") || contains(text, "sequential_range"));
    EXPECT_EQ(contains(text, "NKI 0.3, Neuron"), release == "--sdk 2.29 ");
  }
  for (const std::string device : {"trn2", "trn3"}) {
    expect(neuronmm(emit(xuv + "--sdk 2.28 --device " + device)), 0,
           {"warning", "neuronxcc", device.c_str()});
    EXPECT_TRUE(contains(read(path("kernel.py")), "import neuronxcc.nki as nki\n"));
    EXPECT_TRUE(contains(read(path("kernel.py")), "nl.affine_range("));
  }
  expect(neuronmm(emit(xuv + "--sdk 2.33 --device trn1")), 0, {"warning", "trn1"});
  expect(neuronmm(emit(xuv + "--sdk 3.1")), 2, {"--sdk"});
  expect(neuronmm(emit(xuv + "--dialect nki")), 2, {"--dialect was removed", "--sdk"});
}

TEST_F(EmitCommand, EveryKernelAndLayoutIsPython) {
  for (const std::string kernel : {"matmul_tiled", "matmul_hoisted", "matmul_blocked",
                                   "matmul_optimized", "matmul_fixed_order"}) {
    expect(neuronmm(emit(kernel + " --shape 300,200,600 --left natural --driver torch", kernel)), 0,
           {});
    EXPECT_TRUE(contains(read(path(kernel)), "    return x @ w\n"));
  }
  for (const std::string kernel : {"xuv", "xtuv", "xuv_transposed", "xtuv_transposed",
                                   "xuv_sequential", "xuv_naive", "mlp_up", "mlp"}) {
    expect(neuronmm(emit(kernel + " --shape 300,200,100,600 --dtype fp32 --driver torch", kernel)),
           0, {});
  }
  expect_all_parse();
  EXPECT_TRUE(contains(read(path("xtuv_transposed")), "    return (x.T @ u @ v).T\n"));
  EXPECT_TRUE(contains(read(path("mlp_up")), "import silu\n"));
}

TEST_F(EmitCommand, TheDriverHasInputsReferenceAndTolerance) {
  expect(neuronmm(emit("xtuv --shape 64,96,32,80 --driver torch")), 0, {});
  const std::string text = read(path("kernel.py"));
  for (const char* part :
       {"    x = torch.randn(K, M).to(torch.bfloat16)\n",
        "    v = (torch.randn(r, N) / r**0.5).to(torch.bfloat16)\n", "    return x.T @ u @ v\n",
        "    tolerance = 0.0113\n", "xm.xla_device()", "if __name__ == \"__main__\":\n"}) {
    EXPECT_TRUE(contains(text, part)) << part;
  }
}

// The test checks the call in each driver, in both dialects and on two cores.
TEST_F(EmitCommand, EachDriverCallsTheKernelInItsOwnWay) {
  const std::string xuv = "xuv --shape 64,96,32,80 --force ";
  int kernels = 0;
  const auto expect_call = [&](const std::string& flags, const std::string& call) {
    const std::string file = "kernel" + std::to_string(++kernels) + ".py";
    expect(neuronmm(emit(xuv + flags, file)), 0, {});
    EXPECT_TRUE(contains(read(path(file)), call)) << flags;
  };
  expect_call("--driver numpy --device trn2", "np.asarray(xuv(*inputs), ");
  const std::string cores = "os.environ.setdefault(\"NEURON_LOGICAL_NC_CONFIG\", ";
  expect_call("--driver numpy --device trn3", cores + "\"1\")");
  expect_call("--driver numpy --device trn2 --cores 2", cores + "\"2\")");
  expect_call("--driver torch --device trn2", cores + "\"1\")");
  expect_call("--driver numpy --device trn1", "np.asarray(nki.baremetal(xuv)(*inputs), ");
  expect_call("--driver simulate --device trn2", "nki.simulate(xuv)(*inputs)");
  expect_call("--driver simulate --device trn1", "nki.simulate_kernel(xuv, *inputs)");
  expect_call("--driver simulate --device trn2 --cores 2", "nki.simulate(xuv[2])(*inputs)");
  expect_call("--driver torch --device trn2 --cores 2", "found = xuv[2](*on_device)");
  expect_all_parse();
  expect(neuronmm(emit(xuv + "--driver jax")), 2, {"--driver", "simulate"});
}

TEST_F(EmitCommand, CoresSplitTheRows) {
  expect(neuronmm(emit("xuv --shape 512,128,128,512 --device trn2 --cores 2 --tiling BM=2")), 0,
         {"M 512", "instructions of each core"});
  const std::string text = read(path("kernel.py"));
  for (const char* part : {"--cores 2 --device trn2", "CM = 2 * P  # rows of one core\n",
                           "    assert nl.num_programs(0) == 2\n    core = nl.program_id(0)\n",
                           "Launched on 2 cores: xuv[2](...).", "src=x[nl.ds(core * CM, CM), :]"}) {
    EXPECT_TRUE(contains(text, part)) << part << "\nis not in\n" << text;
  }
  const std::string xuv = "xuv --shape 512,128,128,512 --force ";
  expect(neuronmm(emit(xuv + "--device trn1 --cores 2")), 1,
         {"--cores", "trn1", "at most 1 core,"});
  expect(neuronmm(emit(xuv + "--device trn2 --cores 4")), 1, {"--cores", "at most 2"});
  expect(neuronmm(emit(xuv + "--device trn2 --cores 0")), 2, {"--cores"});
  expect(neuronmm(emit(xuv + "--device trn2 --cores 2 --sdk 2.28")), 1, {"nki alone"});
  expect(neuronmm(emit("xuv --shape 513,128,128,512 --force --device trn2 --cores 2")), 1,
         {"--cores 2", "multiple of 2", "513"});
}

TEST_F(EmitCommand, ManyInstructionsGiveAWarning) {
  const auto few = neuronmm(emit("matmul_tiled --shape 256,256,512"));
  expect(
      few, 0,
      {"16 instructions when"});  // 2 row tiles, each with 4 loads, 2 matmuls, a copy and a store
  EXPECT_FALSE(contains(few.output, "warning"));
  expect(neuronmm(emit("matmul_tiled --shape 16384,16384,8192 --force --device trn2")), 0,
         {"warning: ", " instructions; compilers", "5,000,000"});
}

TEST_F(EmitCommand, ExistingFilesAreKeptWithoutForce) {
  std::ofstream(path("kernel.py")) << "mine";
  expect(neuronmm(emit("xuv --shape 64,96,32,80")), 1, {"kernel.py: already exists", "--force"});
  EXPECT_EQ(read(path("kernel.py")), "mine");
  expect(neuronmm(emit("xuv --shape 64,96,32,80 --force")), 0, {});
  EXPECT_TRUE(contains(read(path("kernel.py")), "def xuv"));
}

TEST_F(EmitCommand, AKernelThatDoesNotFitIsNotWritten) {
  expect(neuronmm(emit("xuv --shape 4096,8192,4096,16384 --device trn1 --tiling BM=8")), 1,
         {"does not fit trn1", "strip_sums", "BM=4", "--accumulate bf16"});
  expect(neuronmm(emit("xuv --shape 4096,8192,4096,16384 --device trn1 --tiling BM=8 --force")), 1,
         {});
  EXPECT_TRUE(empty());
}

TEST_F(EmitCommand, BadInputIsRefused) {
  expect(neuronmm("emit xuv --shape 64,96,32,80"), 2, {"--output"});
  expect(neuronmm(emit("xvu --shape 64,96,32,80")), 1, {"xvu", "xuv_naive"});
  expect(neuronmm(emit("xuv --shape 64,96,32")), 1, {"--shape", "M,K,r,N"});
  expect(neuronmm(emit("xuv --shape 64,96,32,80 --tiling BX=1")), 1, {"BX", "BM, BK, Bu, Br, BN"});
  expect(neuronmm(emit("xuv --shape 64,96,32,80 --left natural")), 1, {"left operand"});
  expect(neuronmm(emit("xuv --shape 64,96,32,80 --dtype fp8")), 2, {"--dtype"});
  expect(neuronmm("emit xuv --shape 64,96,32,80 -o /proc/nowhere/kernel.py"), 1,
         {"/proc/nowhere/kernel.py"});
  expect(neuronmm("emit xuv --shape 64,96,32,80 -o " + folder_.string()), 1, {folder_.c_str()});
  EXPECT_TRUE(empty());
}

}  // namespace
