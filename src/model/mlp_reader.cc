#include "model/mlp_reader.h"

#include <algorithm>
#include <cstring>

#include "io/quantization.h"
#include "model/weight_reader.h"

namespace neuronmm::model {

Result<ops::MlpWeight> MlpReader::read(const io::MlpShape* recorded) {
  const int64_t neurons =
      recorded != nullptr && recorded->neurons > 0 ? recorded->neurons : config_.intermediate_size;
  NMM_ASSIGN(ops::MlpWeight mlp, read_expert(neurons, {config_.hidden_size, config_.hidden_size}));
  if (recorded != nullptr) NMM_TRY(check(*recorded, mlp));
  return mlp;
}

Result<ops::MlpWeight> MlpReader::read_expert(int64_t neurons, const MlpSides& sides) {
  ops::MlpWeight mlp;
  mlp.activation = config_.activation;
  mlp.clamp = config_.swiglu_clamp;
  int64_t in = sides.in;
  if (has("input_pivots")) {
    NMM_ASSIGN(mlp.in, pivots("input", in, true));
    in = mlp.in.rank();
  }
  NMM_ASSIGN(mlp.gate, matrix("gate", in, neurons));
  NMM_ASSIGN(mlp.up, matrix("up", in, neurons));
  NMM_ASSIGN(mlp.down, matrix("down", neurons, sides.out));
  return mlp;
}

Result<ops::LinearWeight> MlpReader::matrix(const std::string& which, int64_t in, int64_t out) {
  NMM_ASSIGN(ops::LinearWeight linear, without_bias(which, in, out));
  if (!config_.mlp_bias) return linear;
  const std::string name = prefix_ + which + "_proj.bias";
  NMM_ASSIGN(linear.bias, checkpoint_.require(name, {out}));
  names_.insert(name);
  return linear;
}

// Reads one matrix. A checkpoint with two forms of it is refused, because it does not say which of
// them the model is.
Result<ops::LinearWeight> MlpReader::without_bias(const std::string& which, int64_t in,
                                                  int64_t out) {
  const std::string dense = which + "_proj.weight", own = which + "_pivots";
  const std::string first = which + "_v_proj.weight", second = which + "_u_proj.weight";
  const std::string factor = has(first) ? first : second;
  if ((has(dense) || has(own)) && has(factor)) {
    return fail("{}: expected {} either dense or as two factors, found both {} and {}", folder(),
                prefix_ + which, has(dense) ? dense : own, factor);
  }
  if (has(factor)) return factors(which, in, out);
  if (!has(dense)) {
    return fail("{}: expected tensor {} or its factors {} and {}, found neither", folder(),
                prefix_ + dense, first, second);
  }
  if (has(own) && which != "down" && has("input_pivots")) {
    return fail("{}: expected {} with pivots of its own or with those of {}, found both", folder(),
                prefix_ + which, prefix_ + "input_pivots");
  }
  ops::LinearWeight linear;
  if (has(own) && which == "down") {
    NMM_ASSIGN(linear.out, pivots(which, out, false));
    out = linear.out.rank();
  } else if (has(own)) {
    NMM_ASSIGN(linear.in, pivots(which, in, true));
    in = linear.in.rank();
  }
  NMM_ASSIGN(linear.w_t, weight(dense, {out, in}));
  return linear;
}

// The rank is read from the tensors' shapes, because config.json need not have it (the reference
// system writes none). Both factors must agree on the rank.
Result<ops::LinearWeight> MlpReader::factors(const std::string& which, int64_t in, int64_t out) {
  const std::string first = which + "_v_proj.weight", second = which + "_u_proj.weight";
  if (!has(first) || !has(second)) {
    return fail("{}: expected both factors {} and {}, found only {}", folder(), prefix_ + first,
                prefix_ + second, has(first) ? first : second);
  }
  const Shape& u_shape = checkpoint_.tensors().at(prefix_ + first).shape;
  const TensorView& v = checkpoint_.tensors().at(prefix_ + second);
  const Shape& v_shape = v.shape;
  // Stored columns are bytes, not ranks; weight() below checks them.
  const bool packed = v.dtype == DType::kU8;
  if (u_shape.size() != 2 || v_shape.size() != 2 || u_shape[0] == 0 ||
      (!packed && u_shape[0] != v_shape[1])) {
    return fail("{}: expected {} [r, {}] and {} [{}, r] with one rank r > 0, found {} and {}",
                folder(), prefix_ + first, in, second, out, shape_string(u_shape),
                shape_string(v_shape));
  }
  ops::LinearWeight linear;
  NMM_ASSIGN(linear.u_t, weight(first, {u_shape[0], in}));
  NMM_ASSIGN(linear.v_t, weight(second, {out, u_shape[0]}));
  return linear;
}

// Reads and checks pivots. A pivot out of range would make a kernel read memory outside the
// activations, and a repeated one would leave an element of the output undefined.
Result<ops::Pivots> MlpReader::pivots(const std::string& which, int64_t features, bool of_input) {
  const std::string name = which + "_pivots";
  const TensorView& tensor = checkpoint_.tensors().at(prefix_ + name);
  const auto wrong = [&](const std::string& found) {
    return fail(
        "{}: tensor {:?}: expected I32 [r], 0 < r < {}, of ascending numbers below {}, found {}",
        folder(), prefix_ + name, features, features, found);
  };
  const int64_t rank = tensor.shape.size() == 1 ? tensor.shape[0] : 0;
  if (tensor.dtype != DType::kI32 || rank < 1 || rank >= features) {
    return wrong(fmt::format("{} {}", dtype_name(tensor.dtype), shape_string(tensor.shape)));
  }
  ops::Pivots pivots;
  pivots.index.resize(static_cast<size_t>(rank));
  std::memcpy(pivots.index.data(), tensor.data, pivots.index.size() * sizeof(int32_t));
  int64_t last = -1;
  for (const int32_t index : pivots.index) {
    if (index <= last || index >= features) return wrong(fmt::format("{} after {}", index, last));
    last = index;
  }
  names_.insert(prefix_ + name);
  const int64_t others = features - rank;
  const Shape shape = of_input ? Shape{rank, others} : Shape{others, rank};
  NMM_ASSIGN(pivots.map_t, weight(which + "_pivot_proj.weight", shape));
  return pivots;
}

// The scales of a rounded weight count as read, too.
Result<ops::WeightView> MlpReader::weight(const std::string& name, const Shape& shape) {
  NMM_ASSIGN(auto weight, require_weight(checkpoint_, config_, prefix_ + name, shape));
  names_.insert(prefix_ + name);
  if (weight.quantized()) names_.insert(prefix_ + name + io::kScaleEnding);
  return weight;
}

Status MlpReader::check(const io::MlpShape& recorded, const ops::MlpWeight& mlp) const {
  const io::MlpShape found = {mlp.gate.rank(), mlp.up.rank(), mlp.down.rank(), mlp.in.rank(),
                              recorded.neurons};
  if (found != recorded) {
    return fail(
        "{}: expected the ranks of {} (gate, up, down, input; 0 = dense) to be {}, {}, {}, {} as "
        "config.json records, found tensors of ranks {}, {}, {}, {}",
        folder(), prefix_.substr(0, prefix_.size() - 1), recorded.gate, recorded.up, recorded.down,
        recorded.input, found.gate, found.up, found.down, found.input);
  }
  bool factors = false, pivots = !mlp.in.empty();
  for (const ops::LinearWeight* linear : {&mlp.gate, &mlp.up, &mlp.down}) {
    factors = factors || linear->low_rank();
    pivots = pivots || linear->pivoted();
  }
  const bool pivoted = config_.compression->pivoted();
  if (!(pivoted ? factors : pivots)) return {};
  return fail("{}: expected {} in the form {:?} that config.json records, found {}", folder(),
              prefix_.substr(0, prefix_.size() - 1), config_.compression->form,
              pivoted ? "two factors" : "pivots");
}

}  // namespace neuronmm::model
