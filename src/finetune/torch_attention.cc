#include "finetune/torch_attention.h"

#include <algorithm>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "finetune/torch_loops.h"
#include "finetune/torch_plain.h"
#include "finetune/torch_product.h"
#include "finetune/torch_types.h"

namespace neuronmm::finetune {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The number of query rows that are multiplied with the same keys. A small block computes little
// that the causal mask hides. Assumed, after measuring 64, 128 and 256.
constexpr int64_t kQueryBlock = 128;

// Query rows [first, last), and the keys [begin, last) that at least one of them sees.
struct QueryBlock {
  int64_t first, last, begin;
  int64_t rows() const { return last - first; }
  int64_t keys() const { return last - begin; }
};

std::vector<QueryBlock> query_blocks(int64_t length, int64_t window) {
  std::vector<QueryBlock> blocks;
  for (int64_t first = 0; first < length; first += kQueryBlock) {
    const int64_t begin = window > 0 ? std::max<int64_t>(0, first - window + 1) : 0;
    blocks.push_back({first, std::min(length, first + kQueryBlock), begin});
  }
  return blocks;
}

// Turns one row of scores into weights. Only the scores in [low, high) are seen, and they are
// replaced by their exponentials.
template <typename V, typename D>
NMM_VECTOR_CLONES void softmax_row(V* scores, int64_t low, int64_t high, int64_t n, D* weights) {
  V largest = scores[low], sum = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t j = low; j < high; ++j) largest = scores[j] > largest ? scores[j] : largest;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = low; j < high; ++j) {
    scores[j] = exp_of(scores[j] - largest);
    sum += scores[j];
  }
  const V share = 1 / sum;
  std::fill_n(weights, low, D(0));
  for (int64_t j = low; j < high; ++j) weights[j] = narrowed<D>(scores[j] * share);
  std::fill_n(weights + high, n - high, D(0));
}

// Replaces the gradient of a row's weights by the gradient of its scores. A weight of 0 gives a
// gradient of 0.
template <typename V, typename D>
NMM_VECTOR_CLONES void softmax_row_backward(const D* weights, int64_t n, D* gradient) {
  V mean = 0;
#pragma omp simd reduction(+ : mean)
  for (int64_t j = 0; j < n; ++j) mean += widened(weights[j]) * widened(gradient[j]);
  for (int64_t j = 0; j < n; ++j) {
    gradient[j] = narrowed<D>(widened(weights[j]) * (widened(gradient[j]) - mean));
  }
}

// Turns scores [B, kv_heads, group · rows, keys] into weights of the same shape in the dtype of
// products. The scores are overwritten.
at::Tensor weights_of(const at::Tensor& scores, const QueryBlock& block, int64_t window,
                      at::ScalarType type) {
  at::Tensor weights = at::empty(scores.sizes(), scores.options().dtype(type));
  const int64_t n = block.keys(), rows = block.rows();
  for_types(scores.scalar_type(), type, [&]<typename V, typename D>() {
    at::parallel_for(0, scores.numel() / n, kParallelElements / n, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) {
        const int64_t query = block.first + i % rows;
        const int64_t low = window > 0 ? std::max(block.begin, query - window + 1) : block.begin;
        softmax_row(scores.data_ptr<V>() + i * n, low - block.begin, query + 1 - block.begin, n,
                    weights.data_ptr<D>() + i * n);
      }
    });
  });
  return weights;
}

void scores_backward(const at::Tensor& weights, at::Tensor& gradient) {
  const int64_t n = weights.size(-1);
  const at::ScalarType type = weights.scalar_type();
  for_types(values_of(type), type, [&]<typename V, typename D>() {
    at::parallel_for(0, weights.numel() / n, kParallelElements / n, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) {
        softmax_row_backward<V>(weights.data_ptr<D>() + i * n, n, gradient.data_ptr<D>() + i * n);
      }
    });
  });
}

// Returns the block's rows of [B, kv_heads, group, T, D] as one matrix per key-value head. The
// query heads of a group share a key-value head, so that one product multiplies all of them with
// its keys.
at::Tensor queries_of(const at::Tensor& q, const QueryBlock& block) {
  return q.slice(3, block.first, block.last)
      .reshape({q.size(0), q.size(1), q.size(2) * block.rows(), q.size(4)});
}

struct Attention : torch::autograd::Function<Attention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, int64_t window) {
    const int64_t batch = q.size(0), heads = q.size(1), group = q.size(2), length = q.size(3);
    at::Tensor mixed = at::empty({batch, length, heads, group, q.size(4)}, v.options());
    variable_list saved = {q, k, v};
    for (const QueryBlock& block : query_blocks(length, window)) {
      const at::Tensor scores =
          matrix_product(queries_of(q, block), k.slice(2, block.begin, block.last).transpose(2, 3));
      const at::Tensor weights = weights_of(scores, block, window, v.scalar_type());
      mixed.slice(1, block.first, block.last)
          .copy_(matrix_product(weights, v.slice(2, block.begin, block.last))
                     .view({batch, heads, group, block.rows(), q.size(4)})
                     .permute({0, 3, 1, 2, 4}));
      saved.push_back(weights);
    }
    context->save_for_backward(saved);
    context->saved_data["window"] = window;
    return mixed.view({batch, length, -1});
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::ScalarType products = saved[2].scalar_type();
    const at::Tensor q = saved[0].to(products), k = saved[1].to(products), &v = saved[2];
    const int64_t batch = q.size(0), heads = q.size(1), group = q.size(2), length = q.size(3);
    const at::Tensor grad_mixed =
        gradients[0].view({batch, length, heads, group, q.size(4)}).permute({0, 2, 3, 1, 4});
    at::Tensor grad_q = at::empty_like(saved[0]), grad_k = at::zeros_like(saved[1]);
    at::Tensor grad_v = at::zeros_like(grad_k);
    size_t index = 3;
    for (const QueryBlock& block : query_blocks(length, context->saved_data["window"].toInt())) {
      const at::Tensor& weights = saved[index++];
      const at::Tensor gradient = queries_of(grad_mixed, block);
      at::Tensor grad_scores =
          matrix_product(gradient, v.slice(2, block.begin, block.last).transpose(2, 3));
      scores_backward(weights, grad_scores);
      grad_v.slice(2, block.begin, block.last)
          .add_(matrix_product(weights.transpose(2, 3), gradient));
      grad_k.slice(2, block.begin, block.last)
          .add_(matrix_product(grad_scores.transpose(2, 3), queries_of(q, block)));
      grad_q.slice(3, block.first, block.last)
          .copy_(matrix_product(grad_scores, k.slice(2, block.begin, block.last))
                     .view({batch, heads, group, block.rows(), q.size(4)}));
    }
    return {grad_q, grad_k, grad_v.to(products), {}};
  }
};

}  // namespace

at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            int64_t window, double score_cap) {
  return q.is_cpu() && score_cap == 0.0 ? Attention::apply(q, k, v, window)
                                        : plain_attention(q, k, v, window, score_cap);
}

}  // namespace neuronmm::finetune
