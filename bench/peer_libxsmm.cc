#include <libxsmm.h>
#include <omp.h>

#include "peers.h"

namespace neuronmm::bench {
namespace {

// The number of features in a block, as in libxsmm's own samples.
constexpr int kBlock = 64;

// Returns the largest divisor of m up to kBlock.
int row_block(int64_t m) {
  int block = static_cast<int>(std::min<int64_t>(m, kBlock));
  while (m % block != 0) --block;
  return block;
}

// A product by libxsmm's fully connected layer. Activations have the layout [rows / b][features /
// 64][b][64].
class LibxsmmProduct final : public PeerProduct {
 public:
  LibxsmmProduct(const Matrix& w_t, int64_t rows)
      : weights_(static_cast<size_t>(w_t.rows() * w_t.columns())) {
    const int64_t n = w_t.rows(), k = w_t.columns();
    float* to = weights_.data();  // [N / 64][K / 64][64 of K][64 of N]
    for (int64_t block_n = 0; block_n < n; block_n += kBlock) {
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = 0; j < kBlock; ++j) *to++ = w_t.row(block_n + j)[i];
      }
    }
    libxsmm_dnn_fullyconnected_desc description = {};
    description.N = static_cast<int>(rows);
    description.C = static_cast<int>(k);
    description.K = static_cast<int>(n);
    description.bn = row_block(rows);
    description.bk = description.bc = kBlock;
    description.threads = omp_get_max_threads();
    description.datatype_in = description.datatype_out = LIBXSMM_DNN_DATATYPE_F32;
    description.buffer_format = LIBXSMM_DNN_TENSOR_FORMAT_NCPACKED;
    description.filter_format = LIBXSMM_DNN_TENSOR_FORMAT_CKPACKED;
    description.fuse_ops = LIBXSMM_DNN_FULLYCONNECTED_FUSE_NONE;
    libxsmm_dnn_err_t status = LIBXSMM_DNN_SUCCESS;
    layer_ = libxsmm_dnn_create_fullyconnected(description, &status);
    NMM_CHECK(layer_ != nullptr);
    scratch_.resize(libxsmm_dnn_fullyconnected_get_scratch_size(layer_, &status) + 64);
    libxsmm_dnn_fullyconnected_bind_scratch(layer_, scratch_.data());
    bind(LIBXSMM_DNN_REGULAR_FILTER, weights_.data());
  }
  ~LibxsmmProduct() override {
    for (libxsmm_dnn_tensor* tensor : tensors_) libxsmm_dnn_destroy_tensor(tensor);
    libxsmm_dnn_destroy_fullyconnected(layer_);
  }

  void apply(const void* x, void* y) const override {
    rebind(LIBXSMM_DNN_REGULAR_INPUT, x);
    rebind(LIBXSMM_DNN_REGULAR_OUTPUT, y);
#pragma omp parallel
    libxsmm_dnn_fullyconnected_execute_st(layer_, LIBXSMM_DNN_COMPUTE_KIND_FWD, 0,
                                          omp_get_thread_num());
  }

 private:
  void bind(libxsmm_dnn_tensor_type type, const void* data) const {
    libxsmm_dnn_err_t status = LIBXSMM_DNN_SUCCESS;
    libxsmm_dnn_tensor_datalayout* const layout =
        libxsmm_dnn_fullyconnected_create_tensor_datalayout(layer_, type, &status);
    libxsmm_dnn_tensor* const tensor = libxsmm_dnn_link_tensor(layout, data, &status);
    libxsmm_dnn_destroy_tensor_datalayout(layout);
    libxsmm_dnn_fullyconnected_bind_tensor(layer_, tensor, type);
    tensors_.push_back(tensor);
  }
  // Binds a new address only. Every product is used with the same x and y again.
  void rebind(libxsmm_dnn_tensor_type type, const void* data) const {
    const void*& bound = bound_[type == LIBXSMM_DNN_REGULAR_OUTPUT];
    if (bound != data) bind(type, bound = data);
  }

  std::vector<float> weights_;
  std::vector<char> scratch_;
  libxsmm_dnn_fullyconnected* layer_ = nullptr;
  mutable std::vector<libxsmm_dnn_tensor*> tensors_;
  mutable const void* bound_[2] = {};
};

class Libxsmm final : public Peer {
 public:
  Libxsmm() { libxsmm_init(); }
  std::string name() const override { return "libxsmm fp32"; }
  bool supports(int64_t, int64_t k, int64_t n) const override {
    return k % kBlock == 0 && n % kBlock == 0;
  }
  std::unique_ptr<PeerProduct> product(const Matrix& w_t, int64_t rows, bool) const override {
    return std::make_unique<LibxsmmProduct>(w_t, rows);
  }
  int64_t index(int64_t i, int64_t j, int64_t rows, int64_t columns) const override {
    const int64_t b = row_block(rows);
    return (i / b * (columns / kBlock) + j / kBlock) * b * kBlock + i % b * kBlock + j % kBlock;
  }
};

}  // namespace

std::vector<std::unique_ptr<Peer>> libxsmm_peers() {
  std::vector<std::unique_ptr<Peer>> peers;
  peers.push_back(std::make_unique<Libxsmm>());
  return peers;
}

}  // namespace neuronmm::bench
