#pragma once
// The packed experts of a backend's mixtures. Without a limit, all experts stay in memory. With a
// limit, as many do as it allows. Another expert is packed from its checkpoint when a token chooses
// it, and experts that were not chosen for the longest time make room. The checkpoint is read in
// the mapped file, so what the system keeps of the file in memory saves a read.
//
// A pass of many tokens chooses nearly all experts of one layer after the other. If each of them
// made room for the next, none would be left when the next pass begins. The experts that such a
// pass reads therefore make room first, and the others stay.

#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "cpu/linear.h"

namespace neuronmm::cpu {

struct PackedExpert {
  // The weights take memory of `arena`.
  PackedExpert(const ops::MlpWeight& weight, ForeignWeights foreign, Arena& arena);
  PackedLinear gate, up, down;
};

class ExpertCache {
 public:
  explicit ExpertCache(ForeignWeights foreign) : foreign_(foreign) {}

  // Sets how many bytes of packed experts stay in memory. A single expert may be larger. Only to be
  // called before the first add().
  void set_limit(int64_t bytes) { limit_ = bytes; }
  // Returns about how many bytes an expert takes when it is packed.
  int64_t packed_bytes(const ops::MlpWeight& weight) const;

  // Adds an expert and returns its number. It is packed at once if that does not exceed the limit.
  // Otherwise the weight's views must stay valid as long as the cache is used.
  int64_t add(const ops::MlpWeight& weight);
  // Loads the first of these experts, at least one, and returns their number. They stay in memory
  // until the next call. If `many_tokens`, those that had to be read make room first.
  size_t load(std::span<const int64_t> experts, bool many_tokens);
  // Returns an expert that is in memory.
  const PackedExpert& operator[](int64_t expert) const {
    return *entries_[static_cast<size_t>(expert)].packed;
  }

  int64_t resident_bytes() const { return resident_bytes_; }
  // Returns how often an expert was packed because it was not in memory.
  int64_t loads() const { return loads_; }

 private:
  struct Entry {
    ops::MlpWeight weight;
    std::unique_ptr<const PackedExpert> packed;
    int64_t bytes = 0;
    int64_t last_call = 0;                    // the last load() that wanted it
    std::list<int64_t>::iterator place = {};  // in order_, if it is packed
  };
  Entry& entry(int64_t expert) { return entries_[static_cast<size_t>(expert)]; }
  size_t count_of_call(std::span<const int64_t> experts) const;
  void read_at_random();
  void pack(int64_t expert, bool stays);
  void make_room(int64_t bytes);

  const ForeignWeights foreign_;
  int64_t limit_ = std::numeric_limits<int64_t>::max();
  std::vector<Entry> entries_;
  std::list<int64_t> order_;  // of the packed ones; the first makes room first
  int64_t resident_bytes_ = 0, calls_ = 0, loads_ = 0;
  Arena arena_;  // of all experts, unless there is a limit
};

}  // namespace neuronmm::cpu
