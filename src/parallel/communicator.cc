#include "parallel/communicator.h"

#include <algorithm>
#include <cstdlib>

#include "base/result.h"

namespace neuronmm::parallel {
namespace {

class SingleProcess : public Communicator {
 public:
  SingleProcess() : Communicator(0, 1) {}

  int processes_of_host() const override { return 1; }
  std::string link() const override { return "none"; }
  void sum(std::span<float> /*values*/, Wire /*wire*/) override { ++traffic_.collectives; }
  void sum(std::span<double> /*values*/) override { ++traffic_.collectives; }
  void all_gather(std::span<const float> mine, std::span<const int64_t> counts,
                  std::span<float> all, Wire /*wire*/) override {
    NMM_CHECK(counts.size() == 1 && counts[0] == std::ssize(mine) && all.size() == mine.size());
    ++traffic_.collectives;
    std::ranges::copy(mine, all.begin());
  }
  void broadcast(Bytes& /*bytes*/) override { ++traffic_.collectives; }
  std::vector<Bytes> gather(std::span<const std::byte> mine) override { return all_gather(mine); }
  std::vector<Bytes> all_gather(std::span<const std::byte> mine) override {
    ++traffic_.collectives;
    return {Bytes(mine.begin(), mine.end())};
  }
  void barrier() override { ++traffic_.collectives; }
  void end_all(int code) override { std::_Exit(code); }
};

}  // namespace

Share share_of(int64_t count, int process, int processes) {
  const int64_t each = count / processes, more = count % processes;
  return {each * process + std::min<int64_t>(process, more), each + (process < more ? 1 : 0)};
}

std::unique_ptr<Communicator> make_single() { return std::make_unique<SingleProcess>(); }

}  // namespace neuronmm::parallel
