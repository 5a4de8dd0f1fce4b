#include "tensor_parallel/heads.h"

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

HeadsHere heads_here(const ops::AttentionShape& whole, const Share& heads) {
  const int64_t group = whole.num_attention_heads / whole.num_key_value_heads;
  const Share kv = kv_heads_of(whole, heads);
  HeadsHere here = {whole};
  here.shape.num_attention_heads = heads.count;
  here.shape.num_key_value_heads = kv.count;
  const int64_t skipped = heads.first - kv.first * group;
  for (int64_t h = 0; h < heads.count; ++h) {
    const bool is_regular =
        heads.count % kv.count == 0 && h / (heads.count / kv.count) == (h + skipped) / group;
    if (is_regular) continue;
    here.group = group;
    here.skipped = skipped;
    break;
  }
  return here;
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

}  // namespace neuronmm::tensor_parallel
