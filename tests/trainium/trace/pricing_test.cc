// Checks what instructions cost, with the arithmetic of the cost tables written out.

#include "trainium/trace/pricing.h"

#include <gtest/gtest.h>

#include "trainium/devices.h"

namespace neuronmm::trace {
namespace {

using simulator::DeviceSpec;
using simulator::kTrn1;
using simulator::kTrn2;
using tile::Memory;

const DeviceSpec kTrn3 = simulator::find_device("trn3").value();

Form chip(Memory memory, const char* dtype, int64_t partitions, int64_t elements) {
  const Dtype type = *find_dtype(dtype);
  return {.memory = memory,
          .dtype = type,
          .partitions = partitions,
          .elements = elements,
          .contiguous = elements,
          .inner_stride_bytes = elements > 1 ? type.bytes : 0};
}
Form sbuf(const char* dtype, int64_t elements, int64_t partitions = 128) {
  return chip(Memory::kSbuf, dtype, partitions, elements);
}
Form psum(int64_t elements) { return chip(Memory::kPsum, "fp32", 128, elements); }
Form strided(Form form, int64_t step) {
  form.inner_stride_bytes = step * form.dtype.bytes;
  form.contiguous = 1;
  return form;
}
Form hbm(const char* dtype, int64_t elements, int64_t contiguous) {
  Form form = chip(Memory::kHbm, dtype, 1, elements);
  form.contiguous = contiguous;
  return form;
}

struct Call {
  const char* name;
  std::vector<std::pair<const char*, Form>> operands;
  Operation attributes = {};
};

Result<Priced> priced(const Call& call, const DeviceSpec& device) {
  Operation operation = call.attributes;
  operation.name = call.name;
  std::vector<const Form*> forms;
  for (const auto& [role, form] : call.operands) {
    operation.operands.push_back(role);
    operation.writes.push_back(operation.operands.back().starts_with("dst"));
    forms.push_back(&form);
  }
  NMM_TRY(check_operation(operation, device));
  return price(operation, forms, device);
}

enum class ComputeEngine { kVector, kScalar, kGpSimd };

// Returns how long the call occupies its engine, in cycles, or -1 if it does not run there.
double cycles(const Call& call, const DeviceSpec& device, ComputeEngine engine) {
  const auto p = priced(call, device);
  EXPECT_TRUE(p.ok()) << p.error().message;
  if (!p.ok()) return 0;
  switch (engine) {
    case ComputeEngine::kVector:
      return p->job.on_vector ? p->job.vector.interval(p->streamed) * device.vector_ghz : -1;
    case ComputeEngine::kScalar:
      return p->job.on_scalar ? p->job.scalar.interval(p->streamed) * device.scalar_ghz : -1;
    case ComputeEngine::kGpSimd:
      return p->job.on_gpsimd ? p->job.gpsimd.interval(p->streamed) * device.gpsimd_ghz : -1;
  }
  return 0;
}

// The fixed part of every instruction in cycles (device_spec.cc): Vector, Scalar and GpSimd.
constexpr double kV = 68, kS = 64, kG = 150;

TEST(Pricing, CopiesHaveFastModesOnVectorOnly) {
  const Call narrow = {"tensor_copy", {{"dst", sbuf("bf16", 512)}, {"src", sbuf("fp16", 512)}}};
  EXPECT_NEAR(cycles(narrow, kTrn1, ComputeEngine::kVector), 512 + kV, 1e-9);
  EXPECT_NEAR(cycles(narrow, kTrn2, ComputeEngine::kVector), 512 / 4.0 + kV, 1e-9);
  EXPECT_NEAR(cycles(narrow, kTrn2, ComputeEngine::kScalar), 512 + kS, 1e-9);
  EXPECT_EQ(cycles(narrow, kTrn2, ComputeEngine::kGpSimd), -1);
  Call gpsimd = narrow;
  gpsimd.attributes.engine = EngineName::kGpSimd;
  EXPECT_NEAR(cycles(gpsimd, kTrn2, ComputeEngine::kGpSimd), 512 + kG, 1e-9);
  EXPECT_EQ(cycles(gpsimd, kTrn2, ComputeEngine::kVector), -1);
  const Call wide = {"tensor_copy", {{"dst", sbuf("fp32", 512)}, {"src", sbuf("i32", 512)}}};
  EXPECT_NEAR(cycles(wide, kTrn2, ComputeEngine::kVector), 512 / 2.0 + kV, 1e-9);
  const Call evict = {"tensor_copy", {{"dst", sbuf("bf16", 512)}, {"src", psum(512)}}};
  EXPECT_NEAR(cycles(evict, kTrn2, ComputeEngine::kVector), 512 + kV, 1e-9);
  const Call tiny = {"tensor_copy", {{"dst", sbuf("bf16", 2)}, {"src", psum(2)}}};
  EXPECT_NEAR(cycles(tiny, kTrn2, ComputeEngine::kVector), 2 + kV, 1e-9);
  // A run-time address costs at least 600 cycles.
  const Call dynamic = {"tensor_copy_dynamic_src",
                        {{"dst", sbuf("bf16", 8)}, {"src", sbuf("bf16", 8)}}};
  EXPECT_NEAR(cycles(dynamic, kTrn2, ComputeEngine::kVector), 600, 1e-9);
}

// A copy of every second bf16 element has the twofold instead of the fourfold mode. Elements more
// than 16 bytes apart come at half of the port's rate, which runs at the core's base clock (1.2 GHz
// on trn2).
TEST(Pricing, StridedCopiesAreSlower) {
  const Form dst = sbuf("bf16", 512);
  const Call two = {"tensor_copy", {{"dst", dst}, {"src", strided(dst, 2)}}};
  EXPECT_NEAR(cycles(two, kTrn2, ComputeEngine::kVector), 512 / 2.0 + kV, 1e-9);
  const Call eight = {"tensor_copy", {{"dst", dst}, {"src", strided(dst, 8)}}};
  EXPECT_NEAR(cycles(eight, kTrn2, ComputeEngine::kVector), 512 / 2.0 + kV, 1e-9);
  const Call nine = {"tensor_copy", {{"dst", dst}, {"src", strided(dst, 9)}}};
  EXPECT_NEAR(cycles(nine, kTrn2, ComputeEngine::kVector), 512 * 2 / 1.2 * 0.96 + kV, 1e-9);
  EXPECT_NEAR(cycles(nine, kTrn2, ComputeEngine::kScalar), 512 * 2 + kS, 1e-9);
}

TEST(Pricing, TwoTensorsTakeTwoCyclesUnlessAFastModeApplies) {
  const auto call = [](Form dst, Form a, Form b) {
    Call made = {"tensor_tensor", {{"dst", dst}, {"src", a}, {"src1", b}}};
    made.attributes.op = "add";
    return made;
  };
  const Form f = sbuf("fp32", 512), h = sbuf("bf16", 512);
  EXPECT_NEAR(cycles(call(f, f, f), kTrn2, ComputeEngine::kVector), 1024 + kV, 1e-9);
  EXPECT_NEAR(cycles(call(f, f, psum(512)), kTrn2, ComputeEngine::kVector), 512 + kV, 1e-9);
  EXPECT_NEAR(cycles(call(h, h, h), kTrn1, ComputeEngine::kVector), 512 + kV, 1e-9);
  EXPECT_NEAR(cycles(call(h, h, h), kTrn2, ComputeEngine::kVector), 256 + kV, 1e-9);
  EXPECT_NEAR(cycles(call(h, h, strided(h, 4)), kTrn2, ComputeEngine::kVector), 1024 + kV, 1e-9);
  EXPECT_EQ(cycles(call(f, f, f), kTrn2, ComputeEngine::kScalar), -1);
  Call power = call(f, f, f);
  power.attributes.op = "power";
  EXPECT_EQ(cycles(power, kTrn2, ComputeEngine::kVector), -1);
  EXPECT_NEAR(cycles(power, kTrn2, ComputeEngine::kGpSimd), 1024 + kG, 1e-9);
}

TEST(Pricing, ScalarRunsProductsAndSumsWithNumbers) {
  const auto call = [](const char* op0, const char* op1) {
    Call made = {
        "tensor_scalar",
        {{"dst", sbuf("bf16", 512)}, {"src", sbuf("bf16", 512)}, {"scalar0", sbuf("fp32", 1)}}};
    made.attributes.op0 = op0;
    made.attributes.op1 = op1;
    return made;
  };
  // Scalar takes products and sums if the call does not choose an engine.
  EXPECT_NEAR(cycles(call("multiply", "add"), kTrn2, ComputeEngine::kVector), 128 + kV, 1e-9);
  EXPECT_NEAR(cycles(call("multiply", "add"), kTrn2, ComputeEngine::kScalar), 512 + kS, 1e-9);
  EXPECT_EQ(cycles(call("max", ""), kTrn2, ComputeEngine::kScalar), -1);
  EXPECT_EQ(cycles(call("add", "multiply"), kTrn2, ComputeEngine::kScalar), -1);
}

TEST(Pricing, InstructionsCostWhatTheTableOfNkiIsaSays) {
  const Form in = sbuf("fp32", 900), out = sbuf("fp32", 900), one = sbuf("fp32", 1);
  const auto plain = [&](const char* name, Form dst, Form src) {
    return Call{name, {{"dst", dst}, {"src", src}}};
  };
  struct Row {
    Call call;
    ComputeEngine engine;
    double cycles;
  };
  Call sum = plain("tensor_reduce", sbuf("bf16", 1), sbuf("bf16", 900));
  sum.attributes.op = "add";
  Call product = sum;
  product.attributes.op = "multiply";
  Call reduced = plain("activation", out, in);
  reduced.attributes.op = "exp";
  reduced.attributes.reduce_op = "add";
  Call shifted = plain("tensor_scalar", out, in);
  shifted.attributes.op0 = "add";
  shifted.attributes.reduce_op = "max";
  Call zeros = {"memset", {{"dst", sbuf("bf16", 900)}}};
  zeros.attributes.zero = true;
  Call ones = {"memset", {{"dst", sbuf("bf16", 900)}}};
  ones.attributes.engine = EngineName::kVector;
  Call mask = {"tensor_copy_predicated", {{"dst", out}, {"src", in}, {"mask", sbuf("u8", 900)}}};
  const std::vector<Row> rows = {
      {plain("activation", out, in), ComputeEngine::kScalar, 900 + kS},
      {reduced, ComputeEngine::kScalar, 900 + 64 + kS},
      {plain("activation_reduce", out, in), ComputeEngine::kScalar, 900 + 64 + kS},
      {plain("reciprocal", out, in), ComputeEngine::kVector, 8 * 900 + kV},
      {{"tensor_tensor_scan", {{"dst", out}, {"src", in}, {"src1", in}}},
       ComputeEngine::kVector,
       1800 + kV},
      {plain("tensor_tensor_scan", out, in), ComputeEngine::kVector, 900 + kV},
      {shifted, ComputeEngine::kVector, 900 + 64 + kV},
      {{"rng", {{"src", in}}}, ComputeEngine::kVector, 900 + kV},
      {plain("tensor_reduce", one, in), ComputeEngine::kVector, 900 + kV},
      {sum, ComputeEngine::kVector, 450 + kV},
      {product, ComputeEngine::kVector, 900 + kV},
      {plain("tensor_scalar_reduce", out, in), ComputeEngine::kVector, 900 + 64 + kV},
      {plain("bn_stats", sbuf("fp32", 6), in), ComputeEngine::kVector, 900 + kV},
      {plain("bn_aggr", sbuf("fp32", 2), in), ComputeEngine::kVector, 13.0 / 3 * 900 + kV},
      {plain("max8", sbuf("fp32", 8), in), ComputeEngine::kVector, 900 + kV},
      {plain("nc_stream_shuffle", out, in), ComputeEngine::kVector, 900 + kV},
      {plain("range_select", out, in), ComputeEngine::kVector, 900 + kV},
      {plain("dropout", out, in), ComputeEngine::kVector, 900 + kV},
      {{"iota", {{"dst", out}}}, ComputeEngine::kGpSimd, 900 + kG},
      {plain("affine_select", out, in), ComputeEngine::kGpSimd, 900 + kG},
      {plain("topk", sbuf("bf16", 64), in), ComputeEngine::kGpSimd, 64 * 900 + kG},
      {plain("topk", sbuf("bf16", 2048), in), ComputeEngine::kGpSimd, 64 * 900 + kG},
      {zeros, ComputeEngine::kGpSimd, 450 + kG},
      {ones, ComputeEngine::kVector, 900 + kV},
      {mask, ComputeEngine::kVector, 2 * 900 + kV},
      {plain("nc_transpose", sbuf("bf16", 32, 32), sbuf("bf16", 32, 32)), ComputeEngine::kVector,
       32 + kV},
  };
  for (const Row& row : rows) {
    EXPECT_NEAR(cycles(row.call, kTrn2, row.engine), row.cycles, 1e-9) << row.call.name;
  }
}

double tensor_cycles(const Priced& p, const DeviceSpec& device) {
  return p.job.tensor.interval(p.tensor.columns) * device.tensor_ghz;
}

Call matmul(const char* dtype, int64_t stationary, int64_t moving) {
  return {"nc_matmul",
          {{"dst", psum(512)},
           {"stationary", sbuf(dtype, stationary)},
           {"moving", sbuf(dtype, moving)}}};
}

// trn2 has 10 cycles between matmuls. An fp32 matmul has two halves of two passes.
TEST(Pricing, MatmulsStreamOneColumnPerCycleAndPass) {
  for (const char* dtype : {"bf16", "fp16", "tf32", "fp8e4"}) {
    EXPECT_NEAR(tensor_cycles(*priced(matmul(dtype, 128, 512), kTrn2), kTrn2), 512 + 10, 1e-9);
  }
  EXPECT_NEAR(tensor_cycles(*priced(matmul("fp32", 128, 512), kTrn2), kTrn2), 2 * (1024 + 10),
              1e-9);
  EXPECT_NEAR(tensor_cycles(*priced(matmul("bf16", 128, 1), kTrn2), kTrn2), 64 + 10, 1e-9);
  EXPECT_NEAR(tensor_cycles(*priced(matmul("bf16", 128, 512), kTrn1), kTrn1), 512 * 7 / 6.0, 1e-9);
  Call onezero = matmul("fp32", 128, 512);
  onezero.attributes.onezero = "stationary";
  EXPECT_NEAR(tensor_cycles(*priced(onezero, kTrn2), kTrn2), 2 * (512 + 10), 1e-9);
  // Moving columns more than 16 bytes apart come at half of the rate.
  Call wide_stride = matmul("bf16", 128, 512);
  wide_stride.operands[2].second = strided(wide_stride.operands[2].second, 16);
  EXPECT_NEAR(tensor_cycles(*priced(wide_stride, kTrn2), kTrn2), 1024 + 10, 1e-9);
}

// Double-row mode has twice the contraction in the time of bf16. The operands are [128, 2, 128] and
// [128, 2, 512].
TEST(Pricing, DoubleRowsTakeTheTimeOfBf16) {
  Call call = matmul("fp8e4", 256, 1024);
  call.attributes.perf_mode = "double_row";
  const auto p = priced(call, kTrn2);
  ASSERT_TRUE(p.ok());
  EXPECT_NEAR(tensor_cycles(*p, kTrn2), 512 + 10, 1e-9);
  EXPECT_EQ(p->tensor.contraction, 256);
  EXPECT_EQ(p->tensor.rows, 128);
  EXPECT_EQ(priced(call, kTrn1).error().message,
            "operation nc_matmul: perf_mode double_row: trn1 has none");
  call.attributes.perf_mode = "triple_row";
  EXPECT_FALSE(priced(call, kTrn2).ok());
}

TEST(Pricing, MxMatmulsHaveFourTimesTheContraction) {
  Call call = matmul("mxfp8e4x4", 128, 512);
  call.name = "nc_matmul_mx";
  const auto p = priced(call, kTrn3);
  ASSERT_TRUE(p.ok());
  EXPECT_EQ(p->tensor.contraction, 512);
  EXPECT_NEAR(tensor_cycles(*p, kTrn3), 512 + 10, 1e-9);
  EXPECT_FALSE(priced(call, kTrn2).ok());
}

// Rows from 64 on and columns from 32 on are square (2, 1) of the array.
TEST(Pricing, TilePositionAndSizeChooseAPartOfTheArray) {
  Call call = matmul("bf16", 32, 512);
  call.attributes.tile_position = {64, 32};
  call.attributes.tile_size = {32, 32};
  EXPECT_EQ(priced(call, kTrn2)->job.array_part, 1 << (2 * 4 + 1));
  call.attributes.tile_position = {0, 0};
  call.attributes.tile_size = {64, 128};
  EXPECT_EQ(priced(call, kTrn2)->job.array_part, 0x00ff);
}

TEST(Pricing, TransposesStreamAColumnPerPartition) {
  const Call call = {"nc_transpose", {{"dst", psum(100)}, {"src", sbuf("bf16", 128, 100)}}};
  const auto p = priced(call, kTrn2);
  ASSERT_TRUE(p.ok());
  EXPECT_EQ(p->job.kind, simulator::Kind::kTranspose);
  EXPECT_NEAR(tensor_cycles(*p, kTrn2), 100 + 10, 1e-9);
}

// The load reads 512 bf16 from each of 128 rows of 4096, in chunks of 1024 bytes.
TEST(Pricing, TransfersHaveTheChunksOfBothSides) {
  const Call load = {"dma_copy", {{"dst", sbuf("bf16", 512)}, {"src", hbm("bf16", 65536, 512)}}};
  const auto p = priced(load, kTrn2);
  ASSERT_TRUE(p.ok());
  EXPECT_TRUE(p->job.loads && !p->job.stores);
  EXPECT_EQ(p->transfer.partitions, 128);
  EXPECT_EQ(p->transfer.bytes_per_partition, 1024);
  EXPECT_EQ(p->transfer.chunk_bytes, 1024);
  EXPECT_EQ(p->on_chip, 0);
  // The chunks are single elements if the two sides have different orders.
  const Call across = {"dma_copy", {{"dst", sbuf("bf16", 512)}, {"src", hbm("bf16", 65536, 1)}}};
  EXPECT_EQ(priced(across, kTrn2)->transfer.chunk_bytes, 2);
  Call transposed = across;
  transposed.attributes.transpose = true;
  EXPECT_EQ(priced(transposed, kTrn2)->transfer.chunk_bytes, 1024);
  EXPECT_TRUE(priced(transposed, kTrn2)->transfer.transposes);
  EXPECT_EQ(priced(transposed, kTrn2)->transfer.rate, 1);
  // Data in SBUF transposes at 5/9 of that rate, which is 0.5 of a plain copy's.
  const Call on_chip = {"dma_transpose", {{"dst", sbuf("bf16", 128)}, {"src", sbuf("bf16", 128)}}};
  EXPECT_NEAR(priced(on_chip, kTrn2)->transfer.rate * kTrn2.dma_transpose_rate, 0.5, 1e-12);
  EXPECT_EQ(priced(on_chip, kTrn1)->transfer.rate, 1);
  // A gather has a row and a descriptor per index.
  Call gather = {
      "dma_copy",
      {{"dst", sbuf("bf16", 512)}, {"src", hbm("bf16", 65536, 512)}, {"index", sbuf("i32", 1)}}};
  EXPECT_EQ(priced(gather, kTrn2)->transfer.chunk_bytes, 1024);
  const Call inside = {"dma_copy",
                       {{"dst", hbm("bf16", 65536, 65536)}, {"src", hbm("bf16", 65536, 65536)}}};
  EXPECT_FALSE(priced(inside, kTrn2)->job.spans_partitions);
  EXPECT_EQ(priced(inside, kTrn2)->transfer.bytes(), 65536 * 2);
  // Two sources are two streams.
  const Call added = {
      "dma_compute",
      {{"dst", sbuf("bf16", 512)}, {"src", sbuf("bf16", 512)}, {"src1", sbuf("bf16", 512)}}};
  EXPECT_EQ(priced(added, kTrn2)->transfer.bytes_per_partition, 2048);
}

TEST(Pricing, RegisterOperationsTakeNoTimeOnSync) {
  Call call = {"register_move", {}};
  call.attributes.engine = EngineName::kSync;
  EXPECT_TRUE(priced(call, kTrn2)->takes_no_time);
  call.attributes.engine = EngineName::kVector;
  EXPECT_NEAR(cycles(call, kTrn2, ComputeEngine::kVector), 1 + kV, 1e-9);
}

// A barrier names a tensor in HBM.
TEST(Pricing, ABarrierOccupiesItsEngine) {
  Call call = {"core_barrier", {{"src", hbm("fp32", 1, 1)}}};
  call.attributes.engine = EngineName::kGpSimd;
  EXPECT_NEAR(cycles(call, kTrn2, ComputeEngine::kGpSimd), 1 + kG, 1e-9);
}

TEST(Pricing, UnknownOperationsAndOperandsAreNamed) {
  EXPECT_EQ(priced({"tensor_teleport", {}}, kTrn2).error().message,
            "operation tensor_teleport: not one of nki.isa that is modelled");
  EXPECT_EQ(priced({"nc_matmul", {{"dst", psum(8)}}}, kTrn2).error().message,
            "nc_matmul: operand stationary is missing");
  const Call from_hbm = {"tensor_copy", {{"dst", sbuf("bf16", 8)}, {"src", hbm("bf16", 8, 8)}}};
  EXPECT_EQ(priced(from_hbm, kTrn2).error().message,
            "tensor_copy: operand src lies in HBM, where no engine but DMA reaches");
}

}  // namespace
}  // namespace neuronmm::trace
