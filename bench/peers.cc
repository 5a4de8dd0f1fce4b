#include "peers.h"

namespace neuronmm::bench {

std::vector<std::unique_ptr<Peer>> make_peers([[maybe_unused]] std::vector<std::string>& missing) {
  std::vector<std::unique_ptr<Peer>> all = openblas_peers();
  const auto add = [&](std::vector<std::unique_ptr<Peer>> peers) {
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

}  // namespace neuronmm::bench
