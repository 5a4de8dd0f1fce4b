#include <cblas.h>

#include "peers.h"

namespace neuronmm::bench {
namespace {

class OpenBlasProduct final : public PeerProduct {
 public:
  OpenBlasProduct(const Matrix& w_t, int64_t rows)
      : w_t_(w_t),
        m_(static_cast<int>(rows)),
        n_(static_cast<int>(w_t.rows())),
        k_(static_cast<int>(w_t.columns())) {}

  void apply(const void* x, void* y) const override {
    const auto* const from = static_cast<const float*>(x);
    auto* const to = static_cast<float*>(y);
    if (m_ == 1) {  // sgemv is five times as fast as sgemm here
      cblas_sgemv(CblasRowMajor, CblasNoTrans, n_, k_, 1.0f, w_t_.data(), k_, from, 1, 0.0f, to, 1);
    } else {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m_, n_, k_, 1.0f, from, k_, w_t_.data(),
                  k_, 0.0f, to, n_);
    }
  }

 private:
  const Matrix& w_t_;
  int m_, n_, k_;
};

class OpenBlas final : public Peer {
 public:
  std::string name() const override { return "OpenBLAS fp32"; }
  std::unique_ptr<PeerProduct> product(const Matrix& w_t, int64_t rows, bool) const override {
    return std::make_unique<OpenBlasProduct>(w_t, rows);
  }
};

}  // namespace

std::vector<std::unique_ptr<Peer>> openblas_peers() {
  std::vector<std::unique_ptr<Peer>> peers;
  peers.push_back(std::make_unique<OpenBlas>());
  return peers;
}

}  // namespace neuronmm::bench
