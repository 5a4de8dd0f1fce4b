#include "trainium/tuner/cache.h"

#include <cstdlib>

#include <nlohmann/json.hpp>

#include "io/atomic_file.h"
#include "io/checksum.h"
#include "io/folder_lock.h"
#include "io/json_file.h"
#include "io/text_file.h"

namespace neuronmm::tuner {

namespace fs = std::filesystem;
using io::JsonFields;
using Json = nlohmann::json;  // The keys are sorted, so equal caches give equal files.
using kernels::Tiling;

namespace {

// The version of the file's format. This program rejects files with another version, except version
// 1. A new fingerprint, in contrast, only makes entries stale.
constexpr int64_t kFormat = 2;
constexpr const char* kFormatKey = "neuronmm_tilings";
constexpr const char* kChecksumKey = "checksum";
constexpr int64_t kMaxBytes = int64_t{64} << 20;  // A search adds about 2 KB.

// --- writing ---

Json tiling_json(const Tiling& tiling) {
  Json json = Json::object();
  for (const auto& [name, value] : tiling.values()) json[name] = value;
  return json;
}

Json outcome_json(const Outcome& outcome) {
  Json best = Json::array(), rejected = Json::array();
  for (const Measurement& m : outcome.best) {
    best.push_back({{"tiling", tiling_json(m.tiling)},
                    {"latency_ns", m.latency_ns},
                    {"hbm_bytes", m.hbm_bytes},
                    {"tensor_ns", m.bound.tensor_ns},
                    {"dma_ns", m.bound.dma_ns},
                    {"eviction_ns", m.bound.elementwise_ns}});
  }
  for (const RejectedTilings& r : outcome.rejected) {
    rejected.push_back({{"count", r.count}, {"closest", tiling_json(r.closest)}, {"why", r.why}});
  }
  return {{"tilings", outcome.tilings},
          {"fitting", outcome.fitting},
          {"simulated", outcome.simulated},
          {"compulsory_bytes", outcome.compulsory_bytes},
          {"fastest_ns", outcome.fastest_ns},
          {"best", best},
          {"losers", rejected}};
}

// --- reading ---

// Returns the value of a field that must exist, or an error that names the file and the field.
template <typename T>
Result<T> required(const JsonFields& fields, const std::string& key,
                   Result<std::optional<T>> value) {
  NMM_ASSIGN(const std::optional<T> found, std::move(value));
  if (!found) return fields.missing(key);
  return *found;
}
// Times, bytes and counts are never negative in a file that this program has written.
Result<int64_t> integer(const JsonFields& fields, const std::string& key) {
  NMM_ASSIGN(const int64_t value, required(fields, key, fields.integer(key)));
  if (value < 0) return fields.wrong(key, "a number that is not negative");
  return value;
}
Result<double> number(const JsonFields& fields, const std::string& key) {
  NMM_ASSIGN(const double value, required(fields, key, fields.number(key)));
  if (!(value >= 0)) return fields.wrong(key, "a number that is not negative");
  return value;
}
Result<const Json*> structure(const JsonFields& fields, const std::string& key,
                              Json::value_t type) {
  const Json* value = fields.find(key);
  if (!value) return fields.missing(key);
  const bool object = type == Json::value_t::object;
  if (value->type() != type) return fields.wrong(key, object ? "an object" : "an array");
  return value;
}
Result<const Json*> object(const JsonFields& fields, const std::string& key) {
  return structure(fields, key, Json::value_t::object);
}
Result<const Json*> array(const JsonFields& fields, const std::string& key) {
  return structure(fields, key, Json::value_t::array);
}

// Reads a tiling in the order of the file. find() restores the kernel's order, because it knows the
// kernel.
Result<Tiling> read_tiling(const JsonFields& fields, const std::string& key) {
  NMM_ASSIGN(const Json* json, object(fields, key));
  const JsonFields values(*json, fields.source() + ": \"" + key + "\"");
  std::vector<std::pair<std::string, int64_t>> tiling;
  for (const auto& item : json->items()) {
    NMM_ASSIGN(const int64_t value, integer(values, item.key()));
    tiling.emplace_back(item.key(), value);
  }
  return Tiling(std::move(tiling));
}

Result<Measurement> read_measurement(const JsonFields& fields) {
  Measurement m;
  NMM_ASSIGN(m.tiling, read_tiling(fields, "tiling"));
  NMM_ASSIGN(m.latency_ns, number(fields, "latency_ns"));
  NMM_ASSIGN(m.hbm_bytes, integer(fields, "hbm_bytes"));
  NMM_ASSIGN(m.bound.tensor_ns, number(fields, "tensor_ns"));
  NMM_ASSIGN(m.bound.dma_ns, number(fields, "dma_ns"));
  NMM_ASSIGN(m.bound.elementwise_ns, number(fields, "eviction_ns"));
  return m;
}

Result<RejectedTilings> read_rejected(const JsonFields& fields) {
  RejectedTilings rejected;
  NMM_ASSIGN(rejected.count, integer(fields, "count"));
  NMM_ASSIGN(rejected.closest, read_tiling(fields, "closest"));
  NMM_ASSIGN(rejected.why, required(fields, "why", fields.string("why")));
  return rejected;
}

Result<Outcome> read_outcome(const JsonFields& fields) {
  Outcome outcome;
  NMM_ASSIGN(outcome.tilings, integer(fields, "tilings"));
  NMM_ASSIGN(outcome.fitting, integer(fields, "fitting"));
  NMM_ASSIGN(outcome.simulated, integer(fields, "simulated"));
  NMM_ASSIGN(outcome.compulsory_bytes, integer(fields, "compulsory_bytes"));
  NMM_ASSIGN(outcome.fastest_ns, number(fields, "fastest_ns"));
  NMM_ASSIGN(const Json* best, array(fields, "best"));
  for (const Json& json : *best) {
    NMM_ASSIGN(Measurement m, read_measurement({json, fields.source() + ": \"best\""}));
    outcome.best.push_back(std::move(m));
  }
  if (outcome.best.empty()) return fields.wrong("best", "at least one tiling");
  NMM_ASSIGN(const Json* rejected, array(fields, "losers"));
  if (rejected->size() != outcome.rejected.size()) {
    return fields.wrong("losers", fmt::format("{} of them", outcome.rejected.size()));
  }
  for (size_t i = 0; i < rejected->size(); ++i) {
    NMM_ASSIGN(outcome.rejected[i],
               read_rejected({(*rejected)[i], fields.source() + ": \"losers\""}));
  }
  return outcome;
}

// Reads trials. A measured trial is {"ns": 12.5}, and a trial that was given up at that time is
// {"more_than": 12.5}.
Result<Trials> read_trials(const Json& json, const std::string& source) {
  Trials trials;
  const JsonFields fields(json, source);
  for (const auto& item : json.items()) {
    const Json& value = item.value();
    const bool gave_up = value.is_object() && value.contains("more_than");
    const JsonFields inner(value, source + ": \"" + item.key() + "\"");
    if (!value.is_object()) return fields.wrong(item.key(), "an object");
    NMM_ASSIGN(const double ns, number(inner, gave_up ? "more_than" : "ns"));
    trials.emplace(item.key(), Trial{ns, gave_up});
  }
  return trials;
}

}  // namespace

// Reads and writes Cache::Entry, which is private to the cache.
struct CacheJson {
  static Json write(const Cache::Entry& entry) {
    Json json = {{"fingerprint", entry.fingerprint}};
    if (entry.outcome) {
      json["top"] = entry.top;
      json["outcome"] = outcome_json(*entry.outcome);
      return json;
    }
    Json trials = Json::object();
    for (const auto& [tiling, trial] : entry.trials) {
      trials[tiling] = {{trial.gave_up ? "more_than" : "ns", trial.ns}};
    }
    json["trials"] = trials;
    return json;
  }

  static Result<Cache::Entry> read(const JsonFields& fields) {
    Cache::Entry entry;
    NMM_ASSIGN(entry.fingerprint, required(fields, "fingerprint", fields.string("fingerprint")));
    if (fields.find("trials")) {
      NMM_ASSIGN(const Json* trials, object(fields, "trials"));
      NMM_ASSIGN(entry.trials, read_trials(*trials, fields.source() + ": \"trials\""));
      return entry;
    }
    NMM_ASSIGN(entry.top, integer(fields, "top"));
    NMM_ASSIGN(const Json* outcome, object(fields, "outcome"));
    NMM_ASSIGN(entry.outcome, read_outcome({*outcome, fields.source() + ": \"outcome\""}));
    return entry;
  }
};

namespace {

// Checks the checksum. A time that a damaged disk or a mistake in an editor has changed would
// silently choose another tiling.
Status check_sum(const std::string& text, const fs::path& path) {
  NMM_ASSIGN(const Json json, io::parse_json_object(text, path.string()));
  if (json.at(kFormatKey) != kFormat) return {};
  const JsonFields fields(json, path.string());
  NMM_ASSIGN(const auto expected, required(fields, kChecksumKey, fields.string(kChecksumKey)));
  if (expected == io::checksum(json.at("entries").dump())) return {};
  return fields.wrong(kChecksumKey, "that of the entries (the file is damaged; delete it)");
}

}  // namespace

// A missing file is an empty cache. Any other file that cannot be read is an error, because it
// belongs to somebody and must not be overwritten.
Result<Cache> Cache::open(const fs::path& path) {
  Cache cache;
  std::error_code error;
  if (fs::exists(path, error)) {
    NMM_ASSIGN(const std::string text, io::read_text_file(path, kMaxBytes));
    NMM_ASSIGN(cache, parse(text, path.string()));
    NMM_TRY(check_sum(text, path));
  }
  cache.path_ = path;
  return cache;
}

Result<Cache> Cache::parse(std::string_view text, const std::string& source) {
  NMM_ASSIGN(const Json json, io::parse_json_object(text, source));
  const JsonFields fields(json, source);
  NMM_ASSIGN(const int64_t format, integer(fields, kFormatKey));
  if (format == 1) return Cache();  // A file of version 0.1 has no checksum and is ignored.
  if (format != kFormat) return fields.wrong(kFormatKey, fmt::format("{}", kFormat));
  NMM_ASSIGN(const Json* entries, object(fields, "entries"));
  Cache cache;
  for (const auto& item : entries->items()) {
    if (!item.value().is_object()) {
      return JsonFields(*entries, source + ": \"entries\"").wrong(item.key(), "an object");
    }
    NMM_ASSIGN(Entry entry, CacheJson::read({item.value(), source + ": \"" + item.key() + "\""}));
    cache.entries_.emplace(item.key(), std::move(entry));
  }
  return cache;
}

std::string Cache::to_json() const {
  Json entries = Json::object();
  for (const auto& [key, entry] : entries_) entries[key] = CacheJson::write(entry);
  return Json{{kFormatKey, kFormat},
              {"entries", entries},
              {kChecksumKey, io::checksum(entries.dump())}}
             .dump(1) +
         "\n";
}

fs::path Cache::folder() const {
  return path_.has_parent_path() ? path_.parent_path() : fs::path(".");
}

Status Cache::check_writable() const {
  if (path_.empty()) return {};
  NMM_TRY(io::make_folder(folder()));
  NMM_ASSIGN(const io::AtomicFile unwritten, io::AtomicFile::create(path_));
  return {};
}

Status Cache::save() const {
  if (path_.empty()) return {};
  const fs::path folder = this->folder();
  NMM_TRY(io::make_folder(folder));
  NMM_ASSIGN(const io::FolderLock lock, io::FolderLock::wait(folder));
  NMM_ASSIGN(Cache merged, open(path_));
  for (const std::string& key : stored_keys_) {
    const Entry& added = entries_.at(key);
    const auto found = merged.entries_.find(key);
    if (found != merged.entries_.end() && found->second.fingerprint == added.fingerprint) {
      merged.entries_[key] = merge(found->second, added);
    } else {
      merged.entries_[key] = added;
    }
  }
  return io::write_text_file(path_, merged.to_json());
}

// Merges two entries of one problem. A finished search wins over trials, and an outcome for more
// tilings wins over one for fewer. Trials of both are combined.
Cache::Entry Cache::merge(const Entry& stored, const Entry& added) {
  if (stored.outcome && (!added.outcome || stored.top > added.top)) return stored;
  Entry merged = added;
  if (!merged.outcome) merged.trials.insert(stored.trials.begin(), stored.trials.end());
  return merged;
}

// Returns the entry if it was made for this kernel, device, timing model and search space. A stale
// entry is removed at once, so that saving the cache cleans the file.
const Cache::Entry* Cache::current_entry(const Problem& problem) {
  const auto found = entries_.find(key_of(problem));
  if (found == entries_.end()) return nullptr;
  if (found->second.fingerprint == fingerprint(problem)) return &found->second;
  entries_.erase(found);
  ++stale_;
  return nullptr;
}

Result<std::optional<Outcome>> Cache::find(const Problem& problem, int64_t top) {
  const Entry* entry = current_entry(problem);
  // An outcome with fewer tilings than requested cannot be used.
  if (!entry || !entry->outcome || entry->top < top) return std::optional<Outcome>();
  Outcome outcome = *entry->outcome;
  if (static_cast<int64_t>(outcome.best.size()) > top) {
    outcome.best.resize(static_cast<size_t>(top));
  }
  std::vector<Tiling*> tilings;
  for (Measurement& m : outcome.best) tilings.push_back(&m.tiling);
  for (RejectedTilings& r : outcome.rejected) {
    if (!r.closest.values().empty()) tilings.push_back(&r.closest);
  }
  // The file may be edited by hand or come from another machine, so the kernel must accept its
  // tilings.
  for (Tiling* tiling : tilings) {
    auto checked = kernels::tiling_of(*problem.kernel, tiling->values());
    if (!checked.ok()) {
      return fail("{}: \"{}\": {}", path_.string(), key_of(problem), checked.error().message);
    }
    *tiling = *checked;  // The checked tiling has the kernel's order.
  }
  outcome.from_cache = true;
  return std::optional<Outcome>(std::move(outcome));
}

Trials Cache::trials(const Problem& problem) {
  const Entry* entry = current_entry(problem);
  return entry ? entry->trials : Trials();
}

// An outcome replaces the trials of interrupted searches, which are not needed any more.
void Cache::store(const Problem& problem, int64_t top, const Outcome& outcome) {
  entries_[key_of(problem)] = {fingerprint(problem), top, outcome, {}};
  stored_keys_.insert(key_of(problem));
}

void Cache::store(const Problem& problem, const Trials& trials) {
  entries_[key_of(problem)] = {fingerprint(problem), 0, {}, trials};
  stored_keys_.insert(key_of(problem));
}

// The path follows the XDG base directory specification, which ignores relative paths. Without a
// home folder nothing is kept.
fs::path default_cache_path() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache == '/') {
    return fs::path(cache) / "neuronmm/tilings.json";
  }
  if (const char* home = std::getenv("HOME"); home && *home == '/') {
    return fs::path(home) / ".cache/neuronmm/tilings.json";
  }
  return {};
}

}  // namespace neuronmm::tuner
