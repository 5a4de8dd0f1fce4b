#pragma once
// The libraries that our kernels are compared with, behind one small interface. Each library is
// used in its best form: weights are reordered beforehand, and activations are in the library's own
// layout. Only the products are timed. bench_kernels uses them.

#include <memory>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace neuronmm::bench {

enum class PeerType { kFp32, kBf16, kInt8 };  // the type of weights and activations

// A product Y = X · W for a fixed weight and number of rows. x and y are in the peer's layout.
class PeerProduct {
 public:
  virtual ~PeerProduct() = default;
  virtual void apply(const void* x, void* y) const = 0;
};

// A library that is compared with, for one type of weights.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual std::string name() const = 0;
  virtual PeerType type() const { return PeerType::kFp32; }
  // Returns whether the peer supports a product of this shape.
  virtual bool supports(int64_t /*rows*/, int64_t /*k*/, int64_t /*n*/) const { return true; }
  // Makes a product. With `to_floats` y is fp32, even if the peer's activations are not.
  virtual std::unique_ptr<PeerProduct> product(const Matrix& w_t, int64_t rows,
                                               bool to_floats) const = 0;
  // Returns the position of element (i, j) of activations [rows, columns], in elements. Only for
  // fp32 peers.
  virtual int64_t index(int64_t i, int64_t j, int64_t /*rows*/, int64_t columns) const {
    return i * columns + j;
  }
};

// Returns the peers that were found when the build was configured. The names of the others are
// added to `missing`.
std::vector<std::unique_ptr<Peer>> make_peers(std::vector<std::string>& missing);

// The peers run on OpenMP's threads. The first function sets their number. The second one wakes
// them, as they would be awake in a program that computes one product after the other.
void set_peer_threads(int threads);
void wake_peer_threads();
// Waits until the peers' threads sleep. They spin for some milliseconds after a product and disturb
// others until then.
void wait_until_peers_sleep();

// Each function makes the peers of one library. It is defined only if the library was found.
std::vector<std::unique_ptr<Peer>> openblas_peers();
std::vector<std::unique_ptr<Peer>> onednn_peers();
std::vector<std::unique_ptr<Peer>> libxsmm_peers();

}  // namespace neuronmm::bench
