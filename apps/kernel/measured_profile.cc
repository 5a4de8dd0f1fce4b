#include "kernel/measured_profile.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/mapped_file.h"

namespace neuronmm::apps {
namespace {

namespace fs = std::filesystem;
using ProfileJson = nlohmann::json;

// The first numbers of the schema whose tables have the fields that are read here. Documented: 7 is
// the schema of SDK 2.31. SDK 2.33 has 12, of which only the number is known.
constexpr int kReadSchema = 7, kNewestSchema = 12;

constexpr std::string_view kConvert =
    "convert the tables once, where neuron-explorer has pandas: python3 -c \"import pandas; "
    "pandas.read_parquet('Instruction.parquet', columns=['start_ts', 'end_ts', 'engine', "
    "'opcode']).to_json('profile.json', orient='records')\"";

// Returns the engine of a row: "tensor" for the tracks "Tensor" and "TensorMatrix". Older profiles
// call the engines Activation and Pool.
std::string engine_name(std::string name) {
  for (char& letter : name) letter = static_cast<char>(std::tolower(letter));
  if (name.starts_with("tensor") || name.starts_with("pe")) return "tensor";
  if (name.starts_with("act") || name.starts_with("scalar")) return "scalar";
  if (name.starts_with("gpsimd") || name.starts_with("pool")) return "gpsimd";
  if (name.starts_with("vector") || name.starts_with("dve")) return "vector";
  return name.starts_with("sync") || name.starts_with("sp") ? "sync" : name;
}

class Reader {
 public:
  explicit Reader(std::string source) : source_(std::move(source)) {}

  Status add(const ProfileJson& table, std::string_view name, bool transfers) {
    if (!table.is_array()) {
      return fail("{}: \"{}\": expected an array of rows, found {}", source_, name,
                  io::describe_json(table));
    }
    for (size_t i = 0; i < table.size(); ++i) {
      const std::string where = fmt::format("{}: \"{}\"[{}]", source_, name, i);
      if (!table[i].is_object()) {
        return fail("{}: expected an object, found {}", where, io::describe_json(table[i]));
      }
      NMM_TRY(add_row(io::JsonFields(table[i], where), transfers));
    }
    return {};
  }

  Result<MeasuredProfile> finish(std::string schema, std::vector<std::string> notes) {
    if (sums_.empty()) return fail("{}: expected rows of instructions, found none", source_);
    MeasuredProfile profile{.schema = std::move(schema),
                            .latency_ns = last_ - first_,
                            .opcodes = {},
                            .notes = std::move(notes)};
    for (auto& [key, sum] : sums_) profile.opcodes.push_back(sum);
    std::ranges::stable_sort(profile.opcodes, std::greater(), &MeasuredOpcode::busy_ns);
    if (other_cores_ > 0) {
      profile.notes.push_back(fmt::format(
          "{} rows of the second core were left out, because the simulation is that of the first",
          other_cores_));
    }
    return profile;
  }

 private:
  Status add_row(const io::JsonFields& row, bool transfers) {
    NMM_ASSIGN(const auto core, row.whole_number("pcore_idx"));
    if (core.value_or(0) != 0) {
      ++other_cores_;
      return {};
    }
    NMM_ASSIGN(const auto begin, time_of(row, "start_ts", "timestamp"));
    double end = begin;
    if (row.find("end_ts")) {
      NMM_ASSIGN(end, time_of(row, "end_ts", "end_ts"));
    } else {
      NMM_ASSIGN(const double duration, time_of(row, "duration_ns", "duration"));
      end += duration;
    }
    if (end < begin) return row.wrong("end_ts", "a time that is not before the begin");
    NMM_ASSIGN(const MeasuredOpcode named, name_of(row, transfers));
    MeasuredOpcode& sum = sums_.try_emplace({named.engine, named.opcode}, named).first->second;
    ++sum.instructions;
    sum.busy_ns += end - begin;
    first_ = std::min(first_, begin);
    last_ = std::max(last_, end);
    return {};
  }

  static Result<MeasuredOpcode> name_of(const io::JsonFields& row, bool transfers) {
    MeasuredOpcode named{.engine = "dma", .opcode = "transfers"};
    if (transfers) return named;
    NMM_ASSIGN(named.opcode, row.required_string("opcode"));
    const char* const engine = row.find("engine") || !row.find("label") ? "engine" : "label";
    NMM_ASSIGN(const std::string name, row.required_string(engine));
    named.engine = engine_name(name);
    return named;
  }

  // Returns a time in ns, by its name or by that of older profiles.
  static Result<double> time_of(const io::JsonFields& row, const char* name, const char* older) {
    const char* const key = row.find(name) ? name : older;
    NMM_ASSIGN(const auto found, row.number(key));
    if (!found) return row.missing(name);
    if (!std::isfinite(*found) || *found < 0) return row.wrong(key, "a time in ns from 0");
    return *found;
  }

  std::string source_;
  std::map<std::pair<std::string, std::string>, MeasuredOpcode> sums_;
  double first_ = 1e300, last_ = 0;
  int64_t other_cores_ = 0;
};

// Returns the schema's version and checks its first number.
Result<std::string> schema_of(const ProfileJson& tables, const std::string& source,
                              std::vector<std::string>& notes) {
  const auto at = tables.find("Metadata");
  if (at == tables.end()) {
    notes.emplace_back(
        "the profile has no table Metadata, so the version of its schema is unknown");
    return std::string();
  }
  const ProfileJson& row = at->is_array() && !at->empty() ? at->front() : *at;
  const std::string where = source + ": \"Metadata\"";
  if (!row.is_object()) {
    return fail("{}: expected a row, found {}", where, io::describe_json(row));
  }
  NMM_ASSIGN(std::string version,
             io::JsonFields(row, where).required_string("profile_schema_version"));
  const int major = std::atoi(version.c_str());
  if (major < kReadSchema || major > kNewestSchema) {
    return fail("{}: \"profile_schema_version\": expected {} to {}, found \"{}\"", where,
                kReadSchema, kNewestSchema, version);
  }
  if (major != kReadSchema) {
    notes.push_back(
        fmt::format("the fields that are read are those of schema {}, the profile has {}",
                    kReadSchema, version));
  }
  return version;
}

Result<MeasuredProfile> read_tables(const ProfileJson& tables, const std::string& source) {
  std::vector<std::string> notes = {
      "the reader was tested on files made from the published schema; no profile of a real device "
      "was at hand"};
  Reader reader(source);
  if (tables.is_array()) {
    notes.emplace_back("the profile has no transfers");
    NMM_TRY(reader.add(tables, "Instruction", /*transfers=*/false));
    return reader.finish("", std::move(notes));
  }
  NMM_ASSIGN(std::string schema, schema_of(tables, source, notes));
  const char* const name = tables.contains("Instruction") ? "Instruction" : "instruction";
  if (!tables.contains(name)) {
    return fail("{}: expected a table \"Instruction\", found none", source);
  }
  NMM_TRY(reader.add(tables[name], name, /*transfers=*/false));
  if (tables.contains("DmaPacketAggregated")) {
    NMM_TRY(reader.add(tables["DmaPacketAggregated"], "DmaPacketAggregated", /*transfers=*/true));
  } else {
    notes.emplace_back("the profile has no transfers (table DmaPacketAggregated)");
  }
  return reader.finish(std::move(schema), std::move(notes));
}

}  // namespace

Result<MeasuredProfile> read_measured_profile(const fs::path& path) {
  NMM_ASSIGN(const auto file, io::MappedFile::open(path));
  const auto bytes = file->bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("PAR1") || path.extension() == ".parquet") {
    return fail("{}: Parquet cannot be read here; {}", path.string(), kConvert);
  }
  if (std::ssize(text) > kMostProfileBytes) {
    return fail(
        "{}: expected at most {} bytes, found {}: keep only the columns start_ts, end_ts, "
        "engine and opcode",
        path.string(), kMostProfileBytes, text.size());
  }
  NMM_ASSIGN(const ProfileJson tables, io::parse_json(text, path.string()));
  if (!tables.is_array() && !tables.is_object()) {
    return fail("{}: expected an object of tables or an array of rows, found {}", path.string(),
                io::describe_json(tables));
  }
  return read_tables(tables, path.string());
}

}  // namespace neuronmm::apps
