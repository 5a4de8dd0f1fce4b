#pragma once
// The libraries that one would use instead, each behind the same small interface and each in the
// form that is best for it: weights reordered beforehand, activations in its own layout. Only the
// products themselves are timed.

#include <memory>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace neuronmm::bench {

enum class PeerType { kFp32, kBf16, kInt8 };  // of weights and activations

// Y = X · W for one weight and one number of rows. x and y are in the peer's layout.
class PeerProduct {
 public:
  virtual ~PeerProduct() = default;
  virtual void apply(const void* x, void* y) const = 0;
};

class Peer {
 public:
  virtual ~Peer() = default;
  virtual std::string name() const = 0;
  virtual PeerType type() const { return PeerType::kFp32; }
  // Whether the product can be asked for; `reason` says why not.
  virtual bool can(int64_t /*rows*/, int64_t /*k*/, int64_t /*n*/) const { return true; }
  // `to_floats`: y is fp32 even where the peer's activations are not.
  virtual std::unique_ptr<PeerProduct> product(const Matrix& w_t, int64_t rows,
                                               bool to_floats) const = 0;
  // Where element (i, j) of activations [rows, columns] lies, in elements. fp32 peers only.
  virtual int64_t index(int64_t i, int64_t j, int64_t /*rows*/, int64_t columns) const {
    return i * columns + j;
  }
};

// Those that were found when the build was configured; what is missing is added to `missing`.
std::vector<std::unique_ptr<Peer>> make_peers(std::vector<std::string>& missing);

// The peers run on OpenMP's threads: sets how many, and wakes them, as they would be awake in a
// program that does one product after the other.
void set_peer_threads(int threads);
void wake_peers();
// They spin for some milliseconds after a product; until then they are in the way of others.
void let_peers_sleep();

// One of each family; defined only where the library was found.
std::vector<std::unique_ptr<Peer>> openblas_peers();
std::vector<std::unique_ptr<Peer>> onednn_peers();
std::vector<std::unique_ptr<Peer>> libxsmm_peers();

}  // namespace neuronmm::bench
