#include "trainium/nki/statements.h"

#include <variant>
#include <vector>

#include <fmt/format.h>

#include "trainium/tile/accesses.h"

namespace neuronmm::nki {

using tile::Buffer;
using tile::HbmRole;
using tile::Memory;
using tile::Program;

namespace {

// NKI distinguishes outputs (shared_hbm, which the caller sees) from scratch (private_hbm).
std::string_view nl_memory(const Buffer& buffer) {
  if (buffer.memory == Memory::kSbuf) return "nl.sbuf";
  if (buffer.memory == Memory::kPsum) return "nl.psum";
  return buffer.role == HbmRole::kOutput ? "nl.shared_hbm" : "nl.private_hbm";
}

std::string_view nl_function(tile::BinaryOp op) {
  return op == tile::BinaryOp::kAdd ? "nl.add" : "nl.multiply";
}
std::string_view nl_function(tile::Activation function) {
  return function == tile::Activation::kSilu ? "nl.silu" : "nl.copy";
}

// Returns a Python float. Python reads "0" as an integer, so a number without a point, an exponent
// or a letter gets ".0".
std::string float_text(float value) {
  const std::string text = fmt::format("{:.9g}", value);
  return text + (text.find_first_of(".en") == text.npos ? ".0" : "");
}

std::string_view engine_name(tile::Engine engine) {
  if (engine == tile::Engine::kVector) return "vector";
  if (engine == tile::Engine::kScalar) return "scalar";
  return engine == tile::Engine::kGpSimd ? "gpsimd" : "";
}

struct Call {
  std::string function;  // The function, with the text before it.
  std::vector<std::string> arguments;
};

// Writes instructions of the nki dialect, in which the destination is the first argument.
struct NkiArguments {
  Expressions& e;

  std::vector<std::string> operator()(const tile::DmaCopy& op) const {
    return operand_arguments({{"dst", &op.dst}, {"src", &op.src}});
  }
  std::vector<std::string> operator()(const tile::NcMatmul& op) const {
    auto call = operand_arguments(
        {{"dst", &op.dst}, {"stationary", &op.stationary}, {"moving", &op.moving}});
    call.push_back("accumulate=" + (op.always_adds ? "True" : e.accumulate_flag(op.sum_loops)));
    return call;
  }
  std::vector<std::string> operator()(const tile::NcTranspose& op) const {
    return operand_arguments({{"dst", &op.dst}, {"data", &op.src}});
  }
  std::vector<std::string> operator()(const tile::TensorCopy& op) const {
    auto call = operand_arguments({{"dst", &op.dst}, {"src", &op.src}});
    const std::string_view engine = engine_name(op.engine);
    if (!engine.empty()) call.push_back(fmt::format("engine=nisa.engine.{}", engine));
    return call;
  }
  std::vector<std::string> operator()(const tile::TensorTensor& op) const {
    auto call = operand_arguments({{"dst", &op.dst}, {"data1", &op.a}, {"data2", &op.b}});
    call.push_back(fmt::format("op={}", nl_function(op.op)));
    return call;
  }
  std::vector<std::string> operator()(const tile::ScaleAdd& op) const {
    auto call = operand_arguments({{"dst", &op.dst}, {"data", &op.src}});
    call.push_back("op0=nl.multiply");
    call.push_back("operand0=" + e.access(op.scale));
    call.push_back("op1=nl.add");
    call.push_back("operand1=" + e.access(op.addend));
    return call;
  }
  // nki.isa.activation takes its function directly after dst.
  std::vector<std::string> operator()(const tile::Activate& op) const {
    auto call = operand_arguments({{"dst", &op.dst}, {"data", &op.src}});
    call.insert(call.begin() + 1, fmt::format("op={}", nl_function(op.function)));
    return call;
  }
  std::vector<std::string> operator()(const tile::Memset& op) const {
    auto call = operand_arguments({{"dst", &op.dst}});
    call.push_back("value=" + float_text(op.value));
    return call;
  }

 private:
  std::vector<std::string> operand_arguments(
      std::initializer_list<std::pair<std::string_view, const tile::Access*>> operands) const {
    std::vector<std::string> call;
    for (const auto& [role, access] : operands) {
      call.push_back(fmt::format("{}={}", role, e.access(*access)));
    }
    return call;
  }
};

// Writes instructions of the legacy dialect, in which results are assigned and state the type that
// they are rounded to. A transpose names the Tensor engine, because small transposes would
// otherwise go to the Vector engine.
struct NeuronxccCall {
  const Program& program;
  Expressions& e;

  Call operator()(const tile::DmaCopy& op) const {
    if (program.buffer(op.src.buffer).memory == Memory::kHbm) {
      if (program.buffer(op.dst.buffer).memory == Memory::kHbm) {
        return {"nisa.dma_copy", {"dst=" + e.access(op.dst), "src=" + e.access(op.src)}};
      }
      const std::string_view load = op.transpose ? "nl.load_transpose2d" : "nl.load";
      return {assignment(op.dst) + std::string(load), {e.access(op.src)}};
    }
    return {"nl.store", {writable(op.dst), "value=" + e.access(op.src)}};
  }
  Call operator()(const tile::NcMatmul& op) const {
    return {writable(op.dst) + " += nisa.nc_matmul",
            {"stationary=" + e.access(op.stationary), "moving=" + e.access(op.moving)}};
  }
  Call operator()(const tile::NcTranspose& op) const {
    return {assignment(op.dst) + "nisa.nc_transpose",
            {"data=" + e.access(op.src), "engine=nisa.tensor_engine"}};
  }
  Call operator()(const tile::TensorCopy& op) const {
    Call call = {assignment(op.dst) + "nisa.tensor_copy",
                 {"src=" + e.access(op.src), dtype(op.dst)}};
    const std::string_view engine = engine_name(op.engine);
    if (!engine.empty()) call.arguments.push_back(fmt::format("engine=nisa.{}_engine", engine));
    return call;
  }
  Call operator()(const tile::TensorTensor& op) const {
    return {assignment(op.dst) + "nisa.tensor_tensor",
            {"data1=" + e.access(op.a), "data2=" + e.access(op.b),
             fmt::format("op={}", nl_function(op.op)), dtype(op.dst)}};
  }
  Call operator()(const tile::ScaleAdd& op) const {
    return {assignment(op.dst) + "nisa.scalar_tensor_tensor",
            {"data=" + e.access(op.src), "op0=nl.multiply", "operand0=" + e.access(op.scale),
             "op1=nl.add", "operand1=" + e.access(op.addend), dtype(op.dst)}};
  }
  Call operator()(const tile::Activate& op) const {
    return {assignment(op.dst) + "nisa.activation",
            {fmt::format("op={}", nl_function(op.function)), "data=" + e.access(op.src),
             dtype(op.dst)}};
  }
  Call operator()(const tile::Memset& op) const {
    return {assignment(op.dst) + "nisa.memset",
            {e.access_shape(op.dst), "value=" + float_text(op.value), dtype(op.dst)}};
  }

 private:
  // Assigning to a bare name would bind the name to the result instead of writing into the buffer,
  // so "[...]" is added.
  std::string writable(const tile::Access& access) const {
    const std::string text = e.access(access);
    return text.ends_with(']') ? text : text + "[...]";
  }
  std::string assignment(const tile::Access& access) const { return writable(access) + " = "; }
  std::string dtype(const tile::Access& access) const {
    return fmt::format("dtype={}", nl_dtype(program.buffer(access.buffer).dtype));
  }
};

}  // namespace

std::string_view nl_dtype(DType dtype) {
  if (dtype == DType::kI32) return "nl.int32";
  return dtype == DType::kBF16 ? "nl.bfloat16" : "nl.float32";
}

void Statements::write(const tile::Operation& operation, PythonText& text) {
  if (dialect_ == Dialect::kNki) {
    load_registers(operation, text);
    text.call(fmt::format("nisa.{}", tile::operation_name(operation)),
              std::visit(NkiArguments{e_}, operation));
    return;
  }
  const Call call = std::visit(NeuronxccCall{program_, e_}, operation);
  text.call(call.function, call.arguments);
}

// An index that no statement before has loaded in this iteration gets a register.
void Statements::load_registers(const tile::Operation& operation, PythonText& text) {
  const auto* load = std::get_if<tile::DmaCopy>(&operation);
  if (!load) return;
  for (const tile::Access& index : load->src.index) {
    const std::string assignment = e_.load_register(index);
    if (!assignment.empty()) text.line(assignment);
  }
}

// The legacy dialect states which dimension is the partition. It begins its sums with zeros, which
// its compiler recognizes without writing any.
std::string Statements::allocation(tile::BufferId id, bool holds_sums) {
  const Buffer& buffer = program_.buffer(id);
  const bool legacy = dialect_ == Dialect::kNeuronxcc;
  std::string shape = e_.shape(id);
  if (legacy && buffer.memory != Memory::kHbm) {
    const size_t end = shape.find_first_of(",)");
    shape = fmt::format("(nl.par_dim({}){}", shape.substr(1, end - 1), shape.substr(end));
  }
  return fmt::format(
      "{} = nl.{}({}, dtype={}, buffer={})", e_.names().buffers[static_cast<size_t>(id)],
      legacy && holds_sums ? "zeros" : "ndarray", shape, nl_dtype(buffer.dtype), nl_memory(buffer));
}

}  // namespace neuronmm::nki
