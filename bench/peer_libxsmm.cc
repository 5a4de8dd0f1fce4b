// The peer libxsmm of release 2, which has batch-reduce products and no layers.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <libxsmm.h>
#include <omp.h>

#include "peers.h"

namespace neuronmm::bench {
namespace {

// The block of a batch-reduce product, in rows, features and inputs. The first two are the ones of
// libxsmm's own samples for fully connected layers.
constexpr int kRows = 64, kFeatures = 64, kInputs = 64;

struct BlockTypes {
  libxsmm_datatype weights, activations, sums;
  int size_bytes;
};

BlockTypes block_types_of(PeerType type) {
  switch (type) {
    case PeerType::kFp32:
      return {LIBXSMM_DATATYPE_F32, LIBXSMM_DATATYPE_F32, LIBXSMM_DATATYPE_F32, 4};
    case PeerType::kBf16:
      return {LIBXSMM_DATATYPE_BF16, LIBXSMM_DATATYPE_BF16, LIBXSMM_DATATYPE_F32, 2};
    case PeerType::kInt8:
      break;
  }
  return {LIBXSMM_DATATYPE_I8, LIBXSMM_DATATYPE_U8, LIBXSMM_DATATYPE_I32, 1};
}

// Writes a value as the type of the weights. int8 weights are the fp32 ones times kInt8Scale, which
// is good enough for times but not for values.
void store(float value, PeerType type, char* to) {
  constexpr float kInt8Scale = 1000.0f;
  if (type == PeerType::kFp32) {
    std::memcpy(to, &value, sizeof value);
  } else if (type == PeerType::kBf16) {
    const auto bits = static_cast<uint16_t>((std::bit_cast<uint32_t>(value) + 0x8000u) >> 16);
    std::memcpy(to, &bits, sizeof bits);
  } else {
    *to = static_cast<char>(std::lround(std::clamp(value * kInt8Scale, -127.0f, 127.0f)));
  }
}

// A product by batch-reduce kernels. libxsmm's matrices are column-major, so it computes Yᵀ = Wᵀ Xᵀ
// with X and Y as they are. The weight has the layout [N / 64][K / 64][64 / v][64 of N][v of K],
// where v values fill four bytes.
class BatchReduceProduct final : public PeerProduct {
 public:
  BatchReduceProduct(const Matrix& w_t, int64_t rows, PeerType type, bool to_floats)
      : type_(type), rows_(rows), n_(w_t.rows()), k_(w_t.columns()) {
    pack(w_t);
    const BlockTypes t = block_types_of(type);
    // The sums of int8 products stay int32, which has as many bytes as fp32.
    const bool sums = to_floats || type == PeerType::kInt8;
    y_size_bytes_ = sums ? 4 : t.size_bytes;
    const auto columns = static_cast<int>(std::min<int64_t>(rows, kRows));
    const libxsmm_gemm_shape shape = libxsmm_create_gemm_shape(
        kFeatures, columns, kInputs, kFeatures, static_cast<int>(k_), static_cast<int>(n_),
        t.weights, t.activations, sums ? t.sums : t.activations, t.sums);
    libxsmm_bitfield flags = LIBXSMM_GEMM_FLAG_BETA_0;
    if (type != PeerType::kFp32) flags |= LIBXSMM_GEMM_FLAG_VNNI_A;
    const libxsmm_gemm_batch_reduce_config config = libxsmm_create_gemm_batch_reduce_config(
        LIBXSMM_GEMM_BATCH_REDUCE_STRIDE, kFeatures * kInputs * t.size_bytes,
        kInputs * t.size_bytes, 0);
    kernel_ = libxsmm_dispatch_brgemm(shape, flags, 0, config);
    NMM_CHECK(kernel_ != nullptr);
  }

  void apply(const void* x, void* y) const override {
    const int64_t row_blocks = rows_ / std::min<int64_t>(rows_, kRows);
    const int64_t feature_blocks = n_ / kFeatures;
    // Each thread keeps a block of weights in its cache while it passes over the rows.
#pragma omp parallel for
    for (int64_t i = 0; i < feature_blocks; ++i) {
      for (int64_t row = 0; row < row_blocks; ++row) multiply(x, y, i, row * kRows);
    }
  }

 private:
  void multiply(const void* x, void* y, int64_t feature_block, int64_t row) const {
    const int size = block_types_of(type_).size_bytes;
    unsigned long long count = static_cast<unsigned long long>(k_ / kInputs);
    libxsmm_gemm_param arguments = {};
    arguments.op.tertiary = &count;
    arguments.a.primary =
        const_cast<char*>(weights_.data() + feature_block * kFeatures * k_ * size);
    arguments.b.primary = const_cast<char*>(static_cast<const char*>(x) + row * k_ * size);
    arguments.c.primary =
        static_cast<char*>(y) + (row * n_ + feature_block * kFeatures) * y_size_bytes_;
    kernel_(&arguments);
  }

  void pack(const Matrix& w_t) {
    const int size = block_types_of(type_).size_bytes, v = 4 / size;
    weights_.resize(static_cast<size_t>(n_ * k_ * size));
    for (int64_t n = 0; n < n_; ++n) {
      for (int64_t k = 0; k < k_; ++k) {
        const int64_t block = (n / kFeatures * (k_ / kInputs) + k / kInputs) * kFeatures * kInputs;
        const int64_t in_block =
            (k % kInputs / v * kFeatures + n % kFeatures) * v + k % kInputs % v;
        store(w_t.row(n)[k], type_, weights_.data() + (block + in_block) * size);
      }
    }
  }

  PeerType type_;
  int64_t rows_, n_, k_;
  int y_size_bytes_ = 4;
  std::vector<char> weights_;
  libxsmm_gemmfunction kernel_ = nullptr;
};

class Libxsmm final : public Peer {
 public:
  explicit Libxsmm(PeerType type) : type_(type) { libxsmm_init(); }
  std::string name() const override {
    return type_ == PeerType::kFp32   ? "libxsmm fp32"
           : type_ == PeerType::kBf16 ? "libxsmm bf16"
                                      : "libxsmm u8s8";
  }
  PeerType type() const override { return type_; }
  bool supports(int64_t rows, int64_t k, int64_t n) const override {
    return k % kInputs == 0 && n % kFeatures == 0 && (rows < kRows || rows % kRows == 0);
  }
  std::unique_ptr<PeerProduct> product(const Matrix& w_t, int64_t rows,
                                       bool to_floats) const override {
    return std::make_unique<BatchReduceProduct>(w_t, rows, type_, to_floats);
  }

 private:
  PeerType type_;
};

}  // namespace

std::vector<std::unique_ptr<Peer>> libxsmm_peers() {
  std::vector<std::unique_ptr<Peer>> peers;
  for (const PeerType type : {PeerType::kFp32, PeerType::kBf16, PeerType::kInt8}) {
    peers.push_back(std::make_unique<Libxsmm>(type));
  }
  return peers;
}

}  // namespace neuronmm::bench
