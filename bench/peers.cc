#include "peers.h"

#include <chrono>
#include <thread>

#include <cblas.h>
#include <omp.h>

namespace neuronmm::bench {

std::vector<std::unique_ptr<Peer>> make_peers([[maybe_unused]] std::vector<std::string>& missing) {
  std::vector<std::unique_ptr<Peer>> all = openblas_peers();
  [[maybe_unused]] const auto add = [&](std::vector<std::unique_ptr<Peer>> peers) {
    for (std::unique_ptr<Peer>& peer : peers) all.push_back(std::move(peer));
  };
#ifdef NEURONMM_ONEDNN
  add(onednn_peers());
#else
  missing.push_back("oneDNN (libdnnl-dev)");
#endif
#ifdef NEURONMM_LIBXSMM
  add(libxsmm_peers());
#else
  missing.push_back("libxsmm (libxsmm-dev)");
#endif
  return all;
}

void set_peer_threads(int threads) {
  omp_set_num_threads(threads);
  openblas_set_num_threads(threads);
}

void wake_peer_threads() {
#pragma omp parallel
  {}
}

void wait_until_peers_sleep() {
  // libgomp's default spin count takes 6 ms: 300,000 pauses of about 65 cycles (measured on Zen 4).
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

}  // namespace neuronmm::bench
