#pragma once
// What was tuned before, in one JSON file that can be copied from machine to machine:
//
//   {"neuronmm_tilings": 2, "checksum": "of the entries, as compact JSON",
//    "entries": {"xuv 4096,8192,4096,16384 trn1 bf16 fp32": {
//      "fingerprint": "0f3a...", "outcome": {...}}}}
//
// An interrupted search leaves "trials", its measurements so far, in place of "outcome". A
// fingerprint that is not today's means that the kernel, the device, the timing model or the search
// space has changed since: such an entry is stale, and found as if it were not there.

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "trainium/tuner/tuner.h"

namespace neuronmm::tuner {

// One simulation: how long the tiling takes, or, when it was given up, a time that it exceeds.
struct Trial {
  double ns = 0;
  bool gave_up = false;
};
using Trials = std::map<std::string, Trial>;  // by "BM=8,BK=4"

class Cache {
 public:
  Cache() = default;  // empty, in memory only
  // An absent file is an empty cache; a malformed one is an error that names it.
  static Result<Cache> open(const std::filesystem::path& path);
  static Result<Cache> parse(std::string_view text, const std::string& source);

  std::string to_json() const;
  // Merges what this run kept into the file where it was opened, whole or not at all. Several
  // processes may save to one file: each holds a lock while it reads, merges and writes.
  Status save() const;

  // What a search for the `top` best found, if it is here and not stale.
  Result<std::optional<Outcome>> find(const Problem& problem, int64_t top);
  Trials trials(const Problem& problem);  // of an interrupted one
  void keep(const Problem& problem, int64_t top, const Outcome& outcome);
  void keep(const Problem& problem, const Trials& trials);

  int64_t stale() const { return stale_; }  // entries that were asked for and found stale

 private:
  struct Entry {
    std::string fingerprint;
    int64_t top = 0;
    std::optional<Outcome> outcome;
    Trials trials;
  };
  friend struct CacheJson;
  const Entry* fresh(const Problem& problem);
  static Entry merge(const Entry& theirs, const Entry& mine);

  std::filesystem::path path_;
  std::map<std::string, Entry> entries_;  // by key
  std::set<std::string> kept_;            // keys of the entries that this run made
  int64_t stale_ = 0;
};

// $XDG_CACHE_HOME or ~/.cache, then /neuronmm/tilings.json; empty without a home.
std::filesystem::path default_cache_path();

// What a search is about: "xuv 4096,8192,4096,16384 trn1 bf16 fp32".
std::string key_of(const Problem& problem);
// A hash of all that its result depends on: the device's parameters, the kernel's tiling parameters
// and its program and simulated time on a small shape, and the search space.
std::string fingerprint(const Problem& problem);
std::string tiling_text(const kernels::Tiling& tiling);  // "BM=8,BK=4"

}  // namespace neuronmm::tuner
