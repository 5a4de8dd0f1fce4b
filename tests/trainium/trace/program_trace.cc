#include "trainium/trace/program_trace.h"

#include <string>

#include "base/result.h"
#include "trainium/tile/accesses.h"
#include "trainium/tile/walk.h"
#include "trainium/trace/trace_writer.h"

namespace neuronmm::trace {

namespace {

using tile::Engine;
using tile::HbmRole;
using tile::Memory;

std::string dtype_of(DType dtype) {
  return dtype == DType::kF32 ? "fp32" : dtype == DType::kI32 ? "i32" : "bf16";
}

class Tracer {
 public:
  explicit Tracer(const tile::Program& program)
      : program_(program),
        walker_(program),
        instances_(program.buffers.size()),
        lines_(program.buffers.size()) {}

  std::vector<std::byte> run() {
    for (size_t b = 0; b < program_.buffers.size(); ++b) {
      if (program_.buffers[b].memory == Memory::kHbm) allocate(static_cast<tile::BufferId>(b), 1);
    }
    while (walker_.next()) {
      const int line = walker_.node() + 2;
      if (const auto* allocation = walker_.allocate()) {
        allocate(allocation->buffer, line);
      } else {
        std::visit([&](const auto& operation) { trace(operation, line); },
                   walker_.instruction()->operation);
      }
    }
    return writer_.finish();
  }

 private:
  using Json = TraceWriter::Json;
  using Operands = std::vector<std::pair<std::string, TraceWriter::View>>;

  void allocate(tile::BufferId id, int line) {
    const tile::Buffer& b = program_.buffer(id);
    uint32_t& instance = instances_[static_cast<size_t>(id)];
    int& declared = lines_[static_cast<size_t>(id)];
    if (declared == 0) declared = line;
    const std::string dtype = dtype_of(b.dtype), name = name_of(program_, id);
    if (b.role == HbmRole::kInput) {
      instance = writer_.input(name, dtype, b.shape);
    } else if (b.role == HbmRole::kOutput) {
      instance = writer_.output(name, dtype, b.shape);
    } else {
      const char* memory = b.memory == Memory::kHbm    ? "hbm"
                           : b.memory == Memory::kSbuf ? "sbuf"
                                                       : "psum";
      instance = writer_.tensor(name, memory, dtype, b.shape, declared);
    }
  }

  // Returns an access of the trace. Axes of one element are dropped, and contiguous axes are
  // joined. The partitions of an on-chip buffer stay an axis of their own.
  TraceWriter::View view(const tile::Access& access) {
    const tile::Buffer& buffer = program_.buffer(access.buffer);
    const tile::Region region = tile::evaluate(access, walker_.loop_values());
    TraceWriter::View out{instances_[static_cast<size_t>(access.buffer)], {}, 0};
    const auto strides = buffer.strides();
    for (size_t d = region.dimensions; d-- > 0;) {
      const int64_t stride = strides[d];
      out.offset += region.start[d] * stride;
      empty_ = empty_ || region.size[d] == 0;
      const bool partitions = d == 0 && buffer.memory != Memory::kHbm;
      if (region.size[d] == 1 && !partitions) continue;
      if (!out.axes.empty() && !partitions && stride == out.axes[0].first * out.axes[0].second) {
        out.axes[0].second *= region.size[d];
      } else {
        out.axes.insert(out.axes.begin(), {stride, region.size[d]});
      }
    }
    return out;
  }

  void emit(const char* name, const char* engine, const Operands& operands, int line,
            const Json& attributes = Json::object()) {
    if (!empty_) writer_.run(name, engine, operands, line, attributes);
    empty_ = false;
  }

  void trace(const tile::DmaCopy& op, int line) {
    Json attributes = {{"transpose", op.transpose}};
    for (const tile::Access& index : op.src.index) {
      emit("register_load", "any", {{"src", view(index)}}, line);
      attributes["indirect"] = "src";
    }
    emit("dma_copy", "dma", {{"dst", view(op.dst)}, {"src", view(op.src)}}, line, attributes);
  }
  void trace(const tile::ScaleAdd& op, int line) {
    emit("scalar_tensor_tensor", "vector",
         {{"dst", view(op.dst)},
          {"src", view(op.src)},
          {"src1", view(op.addend)},
          {"scalar0", view(op.scale)}},
         line, {{"op0", "multiply"}, {"op1", "add"}});
  }
  void trace(const tile::NcMatmul& op, int line) {
    bool first = !op.always_adds;
    for (const tile::LoopId loop : op.sum_loops) {
      first = first && walker_.loop_values()[static_cast<size_t>(loop)] == 0;
    }
    emit("nc_matmul", "tensor",
         {{"dst", view(op.dst)}, {"stationary", view(op.stationary)}, {"moving", view(op.moving)}},
         line, {{"accumulate", !first}});
  }
  void trace(const tile::NcTranspose& op, int line) {
    emit("nc_transpose", "tensor", {{"dst", view(op.dst)}, {"src", view(op.src)}}, line);
  }
  void trace(const tile::TensorCopy& op, int line) {
    const char* engine = op.engine == Engine::kVector   ? "vector"
                         : op.engine == Engine::kScalar ? "scalar"
                         : op.engine == Engine::kGpSimd ? "gpsimd"
                                                        : "any";
    emit("tensor_copy", engine, {{"dst", view(op.dst)}, {"src", view(op.src)}}, line);
  }
  void trace(const tile::TensorTensor& op, int line) {
    emit("tensor_tensor", "any", {{"dst", view(op.dst)}, {"src", view(op.a)}, {"src1", view(op.b)}},
         line, {{"op", op.op == tile::BinaryOp::kAdd ? "add" : "multiply"}});
  }
  void trace(const tile::Activate& op, int line) {
    emit("activation", "scalar", {{"dst", view(op.dst)}, {"src", view(op.src)}}, line,
         {{"op", op.function == tile::Activation::kSilu ? "silu" : "copy"}});
  }
  void trace(const tile::Memset& op, int line) {
    emit("memset", "any", {{"dst", view(op.dst)}}, line, {{"zero", op.value == 0}});
  }

  const tile::Program& program_;
  tile::Walker walker_;
  std::vector<uint32_t> instances_;  // The newest instance of each buffer.
  std::vector<int> lines_;           // The line of each buffer's first allocation.
  TraceWriter writer_;
  bool empty_ = false;  // An operand is empty, at the ragged end of a loop.
};

}  // namespace

std::vector<std::byte> trace_of(const tile::Program& program) { return Tracer(program).run(); }

std::string name_of(const tile::Program& program, tile::BufferId id) {
  return fmt::format("{}.{}", program.buffer(id).name, id);
}

BufferLimits buffer_limits_of(const tile::Program& program) {
  BufferLimits buffer_limits;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const tile::Buffer& buffer = program.buffers[b];
    if (buffer.memory == Memory::kHbm) continue;
    buffer_limits.copies_of[name_of(program, static_cast<tile::BufferId>(b))] = buffer.copies;
  }
  return buffer_limits;
}

}  // namespace neuronmm::trace
