#pragma once
// This file keeps the results of earlier searches in one JSON file that can be copied between
// machines. The tuner reads the cache before a search and adds its result after it.
//
//   {"neuronmm_tilings": 2, "checksum": "of the entries, as compact JSON",
//    "entries": {"xuv 4096,8192,4096,16384 trn1 bf16 fp32": {
//      "fingerprint": "0f3a...", "outcome": {...}}}}
//
// An interrupted search leaves "trials", its measurements so far, instead of "outcome". An entry is
// stale if its fingerprint differs from the current one: the kernel, the device, the timing model
// or the search space has then changed since. A stale entry is ignored. A malformed or damaged file
// is an error.

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "trainium/tuner/tuner.h"

namespace neuronmm::tuner {

// A simulation: how long the tiling takes, or a time that it exceeds if the simulation was given
// up.
struct Trial {
  double ns = 0;
  bool gave_up = false;
};
using Trials = std::map<std::string, Trial>;  // By text such as "BM=8,BK=4".

// The entries of one cache file. An instance may be used by one thread at a time; several processes
// may share the file.
class Cache {
 public:
  Cache() = default;  // Makes an empty cache that is only in memory.
  // Reads a file. An absent file is an empty cache. A malformed file is an error that names the
  // file.
  static Result<Cache> open(const std::filesystem::path& path);
  static Result<Cache> parse(std::string_view text, const std::string& source);

  std::string to_json() const;
  // Merges the entries of this run into the file that was opened, completely or not at all. Several
  // processes may save to one file, because a process holds a lock while it reads, merges and
  // writes.
  Status save() const;
  // Fails if save() could not write the file. Makes the file's folder, but not the file.
  Status check_writable() const;

  // Returns the result of a search for the `top` best tilings, if the cache has it and it is not
  // stale.
  Result<std::optional<Outcome>> find(const Problem& problem, int64_t top);
  Trials trials(const Problem& problem);  // Returns the trials of an interrupted search.
  void store(const Problem& problem, int64_t top, const Outcome& outcome);
  void store(const Problem& problem, const Trials& trials);

  // The number of entries that were requested and found stale.
  int64_t stale() const { return stale_; }

 private:
  struct Entry {
    std::string fingerprint;
    int64_t top = 0;
    std::optional<Outcome> outcome;
    Trials trials;
  };
  friend struct CacheJson;
  const Entry* current_entry(const Problem& problem);
  std::filesystem::path folder() const;
  static Entry merge(const Entry& stored, const Entry& added);

  std::filesystem::path path_;
  std::map<std::string, Entry> entries_;  // By key.
  std::set<std::string> stored_keys_;     // The keys of the entries that this run made.
  int64_t stale_ = 0;
};

// Returns $XDG_CACHE_HOME or ~/.cache, followed by /neuronmm/tilings.json. The path is empty if
// there is no home folder.
std::filesystem::path default_cache_path();

// Returns the name of a problem: "xuv 4096,8192,4096,16384 trn1 bf16 fp32".
std::string key_of(const Problem& problem);
// Returns a hash of everything that the result of a search depends on: the device's parameters, the
// kernel's tiling parameters, the search space, and the kernel's program and simulated time on a
// small shape.
std::string fingerprint(const Problem& problem);
std::string tiling_text(const kernels::Tiling& tiling);  // For example "BM=8,BK=4".

}  // namespace neuronmm::tuner
