#include "tensor_parallel/heads.h"

#include <algorithm>
#include <numeric>

namespace neuronmm::tensor_parallel {
namespace {

int64_t unit_of(const ops::AttentionShape& whole, bool quantized) {
  return quantized ? ops::kQuantGroup / std::gcd(ops::kQuantGroup, whole.head_dim) : 1;
}

}  // namespace

Share heads_of(const ops::AttentionShape& whole, bool quantized, int process, int processes) {
  return share_in_units(whole.num_attention_heads, unit_of(whole, quantized), process, processes);
}

Share kv_heads_of(const ops::AttentionShape& whole, const Share& heads) {
  const int64_t group = whole.num_attention_heads / whole.num_key_value_heads;
  const int64_t first = heads.first / group;
  return {first, (heads.end() - 1) / group + 1 - first};
}

ops::AttentionShape shape_of(const ops::AttentionShape& whole, const Share& heads) {
  const int64_t group = whole.num_attention_heads / whole.num_key_value_heads;
  const Share kv = kv_heads_of(whole, heads);
  ops::AttentionShape shape = whole;
  shape.num_attention_heads = heads.count;
  shape.num_key_value_heads = kv.count;
  const int64_t skipped = heads.first - kv.first * group;
  for (int64_t h = 0; h < heads.count; ++h) {
    const bool is_regular =
        heads.count % kv.count == 0 && h / (heads.count / kv.count) == (h + skipped) / group;
    if (is_regular) continue;
    shape.group = group;
    shape.skipped = skipped;
    break;
  }
  return shape;
}

Status check_heads(const ops::AttentionShape& whole, bool quantized, int processes) {
  const int64_t unit = unit_of(whole, quantized);
  const int64_t most = (whole.num_attention_heads + unit - 1) / unit;
  if (processes <= most) return {};
  return fail(
      "{} processes are more than the model's {} attention heads of {} can be shared out to{}: at "
      "most {}",
      processes, whole.num_attention_heads, whole.head_dim,
      unit == 1 ? "" : fmt::format(", {} together for whole groups of rounded weights", unit),
      most);
}

// Zeros as queries see every value alike; what they give is left out again.
void attend(const ops::Backend& backend, const ops::AttentionShape& shape, int64_t layer,
            ConstMatrixView q, ConstMatrixView k, ConstMatrixView v, ops::Batch batch,
            MutableMatrixView y) {
  if (shape.group == 0) return backend.attention(shape, layer, q, k, v, batch, y);
  ops::AttentionShape padded = shape;
  padded.num_attention_heads = shape.num_key_value_heads * shape.group;
  padded.group = padded.skipped = 0;
  const int64_t first = shape.skipped * shape.head_dim;
  Matrix all_q(q.rows, padded.num_attention_heads * shape.head_dim);
  Matrix all_y(q.rows, all_q.columns());
  for (int64_t i = 0; i < q.rows; ++i) std::copy_n(q.row(i), q.columns, all_q.row(i) + first);
  backend.attention(padded, layer, all_q.view(), k, v, batch, all_y.view());
  for (int64_t i = 0; i < y.rows; ++i) std::copy_n(all_y.row(i) + first, y.columns, y.row(i));
}

}  // namespace neuronmm::tensor_parallel
