#include "trainium/trace/header.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "io/json_file.h"

namespace neuronmm::trace {

namespace {

using io::JsonFields;
using nlohmann::json;
using tile::HbmRole;
using tile::Memory;

// Limit of elements and strides. It is far above any memory, and products of two sizes do not
// overflow.
constexpr int64_t kMostElements = int64_t{1} << 46;

constexpr std::array<Dtype, 20> kDtypes = {
    {{"bf16", 2},  {"fp16", 2},  {"fp32", 4},      {"tf32", 4},      {"fp8e4", 1},
     {"fp8e5", 1}, {"fp8e8", 1}, {"i8", 1},        {"u8", 1},        {"i16", 2},
     {"u16", 2},   {"i32", 4},   {"u32", 4},       {"i64", 8},       {"u64", 8},
     {"bool", 1},  {"fp64", 8},  {"mxfp8e4x4", 4}, {"mxfp8e5x4", 4}, {"mxfp4x4", 2}}};

// Returns the index in `names` of the string at `key`.
template <size_t kCount>
Result<size_t> one_of(const JsonFields& fields, const std::string& key,
                      const std::array<std::string_view, kCount>& names) {
  NMM_ASSIGN(const std::string found, fields.required_string(key));
  const auto at = std::find(names.begin(), names.end(), found);
  if (at == names.end()) {
    return fields.wrong(key, fmt::format("one of {}", fmt::join(names, ", ")));
  }
  return static_cast<size_t>(at - names.begin());
}

// Reads an array of `size` integers (any number if `size` is 0), each in [low, high].
Result<std::vector<int64_t>> integers(const json& value, const std::string& where, size_t size,
                                      int64_t low, int64_t high) {
  if (!value.is_array() || (size > 0 && value.size() != size)) {
    return fail("{}: expected an array{}, found {}", where,
                size > 0 ? fmt::format(" of {} integers", size) : " of integers",
                io::describe_json(value));
  }
  std::vector<int64_t> out;
  for (const json& item : value) {
    const bool fits = item.is_number_integer() &&
                      !(item.is_number_unsigned() && item.get<uint64_t>() > INT64_MAX);
    if (!fits || item.get<int64_t>() < low || item.get<int64_t>() > high) {
      return fail("{}: expected integers in [{}, {}], found {}", where, low, high,
                  io::describe_json(item));
    }
    out.push_back(item.get<int64_t>());
  }
  return out;
}

// Reads the header's array `key`, each element by read(value, where).
template <typename T, typename Read>
Result<std::vector<T>> list(const JsonFields& fields, const std::string& key, const Read& read) {
  const json* array = fields.find(key);
  if (!array) return fields.missing(key);
  if (!array->is_array()) return fields.wrong(key, "an array");
  std::vector<T> out;
  out.reserve(array->size());
  for (const json& item : *array) {
    NMM_ASSIGN(T value,
               read(item, fmt::format("{}: \"{}\"[{}]", fields.source(), key, out.size())));
    out.push_back(std::move(value));
  }
  return out;
}

Status check_object(const json& value, const std::string& where) {
  if (value.is_object()) return {};
  return fail("{}: expected an object, found {}", where, io::describe_json(value));
}

Result<std::string> read_text(const json& value, const std::string& where) {
  if (!value.is_string()) {
    return fail("{}: expected a string, found {}", where, io::describe_json(value));
  }
  return printable(value.get<std::string>());
}

Result<SourceLine> read_source(const json& value, const std::string& where) {
  if (!value.is_array() || value.size() != 3 || !value[2].is_string()) {
    return fail("{}: expected [file, line, \"function\"], found {}", where,
                io::describe_json(value));
  }
  NMM_ASSIGN(const auto numbers,
             integers(json::array({value[0], value[1]}), where, 2, 0, INT32_MAX));
  return SourceLine{static_cast<uint32_t>(numbers[0]), numbers[1],
                    printable(value[2].get<std::string>())};
}

Result<TensorKind> read_tensor(const json& value, const std::string& where) {
  NMM_TRY(check_object(value, where));
  const JsonFields fields(value, where);
  TensorKind kind;
  NMM_ASSIGN(kind.name, fields.required_string("name"));
  kind.name = printable(kind.name);
  NMM_ASSIGN(const size_t memory,
             one_of(fields, "memory", std::array<std::string_view, 3>{"hbm", "sbuf", "psum"}));
  kind.memory = std::array{Memory::kHbm, Memory::kSbuf, Memory::kPsum}[memory];
  NMM_ASSIGN(const std::string dtype, fields.required_string("dtype"));
  const auto found = find_dtype(dtype);
  if (!found.ok()) return fail("{}: \"dtype\": {}", where, found.error().message);
  kind.dtype = *found;
  const json* shape = fields.find("shape");
  if (!shape) return fields.missing("shape");
  NMM_ASSIGN(kind.shape, integers(*shape, where + ": \"shape\"", 0, 1, kMostElements));
  for (const int64_t size : kind.shape) {
    if (size > kMostElements / kind.elements) {
      return fail("{}: \"shape\": more than 2^46 elements: {}", where, shape_string(kind.shape));
    }
    kind.elements *= size;
  }
  if (kind.on_chip() && (kind.shape.empty() || kind.shape[0] > kPartitions)) {
    return fail("{}: {}: expected at most {} partitions as the first dimension, found {}", where,
                kind.name, kPartitions, shape_string(kind.shape));
  }
  if (!kind.shape.empty()) {
    kind.row_elements = kind.on_chip() ? kind.elements / kind.shape[0] : kind.shape.back();
  }
  if (fields.find("role")) {
    NMM_ASSIGN(const size_t role,
               one_of(fields, "role",
                      std::array<std::string_view, 4>{"none", "input", "output", "scratch"}));
    kind.role =
        std::array{HbmRole::kNone, HbmRole::kInput, HbmRole::kOutput, HbmRole::kScratch}[role];
  }
  if (fields.find("source")) {
    NMM_ASSIGN(const int64_t source, fields.required_count("source"));
    kind.source = static_cast<uint32_t>(std::min<int64_t>(source, UINT32_MAX));
  }
  const json* view = fields.find("view_of");
  kind.view = view && !(view->is_boolean() && !view->get<bool>());
  return kind;
}

Result<Pattern> read_pattern(const json& value, const std::string& where) {
  if (!value.is_array()) {
    return fail("{}: expected an array of [stride, count], found {}", where,
                io::describe_json(value));
  }
  Pattern pattern;
  for (const json& axis : value) {
    NMM_ASSIGN(const auto numbers, integers(axis, where, 2, -kMostElements, kMostElements));
    const auto [stride, count] = Axis{numbers[0], numbers[1]};
    const int64_t span = std::abs(stride);
    if (count < 1 || count > kMostElements / pattern.elements ||
        (span > 0 && count - 1 > (kMostElements - (pattern.highest - pattern.lowest)) / span)) {
      return fail("{}: expected counts of at least 1 and at most 2^46 elements, found {}", where,
                  value.dump());
    }
    pattern.elements *= count;
    (stride > 0 ? pattern.highest : pattern.lowest) += stride * (count - 1);
    pattern.axes.push_back({stride, count});
  }
  return pattern;
}

// Reads the attributes that are names or flags. A name may be absent or null: a tensor_scalar with
// one operation has no "op1".
Status read_names(const JsonFields& attributes, Operation& operation) {
  for (auto [key, out] : std::initializer_list<std::pair<const char*, std::string*>>{
           {"op", &operation.op},
           {"op0", &operation.op0},
           {"op1", &operation.op1},
           {"reduce_op", &operation.reduce_op},
           {"perf_mode", &operation.perf_mode},
           {"onezero", &operation.onezero},
           {"dge", &operation.dge}}) {
    NMM_ASSIGN(auto text, attributes.string(key));
    if (text) *out = printable(*text);
  }
  for (auto [key, out] :
       std::initializer_list<std::pair<const char*, bool*>>{{"transpose", &operation.transpose},
                                                            {"accumulate", &operation.accumulate},
                                                            {"zero", &operation.zero},
                                                            {"dynamic", &operation.dynamic}}) {
    // The "accumulate" of a DMA is the name of an operator.
    const json* value = attributes.find(key);
    if (value) *out = !value->is_boolean() || value->get<bool>();
  }
  // "indirect" is "src", "dst", or several of them with spaces between: the operands whose role
  // begins so.
  NMM_ASSIGN(const auto indirect, attributes.string("indirect"));
  std::istringstream roles(indirect.value_or(""));
  for (std::string role; roles >> role;) {
    for (size_t i = 0; i < operation.operands.size(); ++i) {
      if (operation.operands[i].starts_with(role)) operation.has_run_time_index[i] = true;
    }
  }
  return {};
}

Status read_attributes(const json& value, const std::string& where, Operation& operation) {
  NMM_TRY(check_object(value, where));
  const JsonFields attributes(value, where);
  NMM_TRY(read_names(attributes, operation));
  for (auto [key, out] :
       std::initializer_list<std::pair<const char*, std::optional<std::array<int64_t, 2>>*>>{
           {"tile_position", &operation.tile_position}, {"tile_size", &operation.tile_size}}) {
    const json* pair = attributes.find(key);
    if (!pair || (pair->is_array() && pair->empty())) continue;
    NMM_ASSIGN(const auto numbers,
               integers(*pair, fmt::format("{}: \"{}\"", where, key), 2, 0, kPartitions));
    *out = {numbers[0], numbers[1]};
  }
  NMM_ASSIGN(const auto per_index, attributes.integer("elements"));
  operation.elements_per_index = std::clamp<int64_t>(per_index.value_or(1), 1, 1 << 16);
  return {};
}

Result<Operation> read_operation(const json& value, const std::string& where) {
  NMM_TRY(check_object(value, where));
  const JsonFields fields(value, where);
  Operation operation;
  NMM_ASSIGN(operation.name, fields.required_string("name"));
  operation.name = printable(operation.name);
  NMM_ASSIGN(const size_t engine,
             one_of(fields, "engine",
                    std::array<std::string_view, 7>{"tensor", "vector", "scalar", "gpsimd", "sync",
                                                    "dma", "any"}));
  operation.engine = static_cast<EngineName>(engine);
  NMM_ASSIGN(operation.operands, list<std::string>(fields, "operands", read_text));
  for (const std::string& role : operation.operands) {
    operation.writes.push_back(role.starts_with("dst"));
  }
  operation.has_run_time_index.resize(operation.operands.size());
  if (const json* attributes = fields.find("attributes")) {
    NMM_TRY(read_attributes(*attributes, where + ": \"attributes\"", operation));
  }
  return operation;
}

Result<Loop> read_loop(const json& value, const std::string& where) {
  NMM_TRY(check_object(value, where));
  const JsonFields fields(value, where);
  NMM_ASSIGN(const size_t kind,
             one_of(fields, "kind",
                    std::array<std::string_view, 4>{"affine", "sequential", "static", "dynamic"}));
  NMM_ASSIGN(const int64_t count, fields.required_count("count"));
  return Loop{static_cast<LoopKind>(kind), count};
}

Status read_counts(const JsonFields& fields, Header& header) {
  const json* counts = fields.find("counts");
  if (!counts) return fields.missing("counts");
  const std::string where = fields.source() + ": \"counts\"";
  NMM_TRY(check_object(*counts, where));
  const JsonFields numbers(*counts, where);
  NMM_ASSIGN(header.instructions, numbers.required_count("instructions"));
  NMM_ASSIGN(header.instances, numbers.required_count("tensors"));
  return {};
}

// Reads the copies of the buffers. Assumed: no kernel has a million.
Status read_rotates(const JsonFields& fields, Header& header) {
  constexpr int64_t kMostCopies = 1 << 20;
  const json* rotates = fields.find("rotates");
  if (!rotates) return {};
  const std::string where = fields.source() + ": \"rotates\"";
  NMM_TRY(check_object(*rotates, where));
  for (const auto& [name, copies] : rotates->items()) {
    NMM_ASSIGN(const auto numbers, integers(json::array({copies}), where, 1, 1, kMostCopies));
    header.rotates[printable(name)] = numbers[0];
  }
  return {};
}

// Reads the number of cores, at most 1024 as in the tracer.
Status read_grid(const JsonFields& fields, Header& header) {
  const json* grid = fields.find("grid");
  if (!grid || header.legacy()) return {};
  const std::string where = fields.source() + ": \"grid\"";
  if (!grid->is_array() || grid->empty()) return fail("{}: expected a list of numbers", where);
  for (const json& size : *grid) {
    if (!size.is_number_integer() || size < 1 || size > 1024 || header.cores > 1024) {
      return fail("{}: expected numbers of cores, 1 to 1024 in all", where);
    }
    header.cores *= size.get<int64_t>();
  }
  if (header.cores > 1024) return fail("{}: {} cores, expected at most 1024", where, header.cores);
  return {};
}

// Checks the indices by which one part of the header refers to another.
Status check_references(const Header& header, const std::string& source) {
  for (size_t i = 0; i < header.sources.size(); ++i) {
    if (header.sources[i].file >= header.files.size()) {
      return fail("{}: \"sources\"[{}]: file {} of {}", source, i, header.sources[i].file,
                  header.files.size());
    }
  }
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    if (header.tensors[i].source >= header.sources.size()) {
      return fail("{}: \"tensors\"[{}]: source {} of {}", source, i, header.tensors[i].source,
                  header.sources.size());
    }
  }
  return {};
}

}  // namespace

Result<Dtype> find_dtype(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Dtype& dtype : kDtypes) {
    if (dtype.name == name) return dtype;
    names.push_back(dtype.name);
  }
  return fail("expected one of {}, found '{}'", fmt::join(names, ", "), printable(name));
}

std::string Header::location(uint32_t source) const {
  const SourceLine& line = sources[source];
  return fmt::format("{}:{}", std::filesystem::path(files[line.file]).filename().string(),
                     line.line);
}

Result<Header> parse_header(std::string_view text, const std::string& source) {
  NMM_ASSIGN(const json object, io::parse_json_object(text, source + ": header"));
  const JsonFields fields(object, source + ": header");
  Header header;
  NMM_ASSIGN(header.kernel, fields.required_string("kernel"));
  header.kernel = printable(header.kernel);
  constexpr std::array<std::string_view, 2> dialects = {"nki", "neuronxcc"};
  NMM_ASSIGN(const size_t dialect, one_of(fields, "dialect", dialects));
  header.dialect = dialects[dialect];
  NMM_ASSIGN(header.device, fields.required_string("device"));
  NMM_ASSIGN(header.files, list<std::string>(fields, "files", read_text));
  NMM_ASSIGN(header.sources, list<SourceLine>(fields, "sources", read_source));
  NMM_ASSIGN(header.tensors, list<TensorKind>(fields, "tensors", read_tensor));
  NMM_ASSIGN(header.patterns, list<Pattern>(fields, "patterns", read_pattern));
  NMM_ASSIGN(header.operations, list<Operation>(fields, "operations", read_operation));
  if (fields.find("loops")) {
    NMM_ASSIGN(header.loops, list<Loop>(fields, "loops", read_loop));
  }
  if (fields.find("notes")) {
    NMM_ASSIGN(header.notes, list<std::string>(fields, "notes", read_text));
  }
  NMM_TRY(read_counts(fields, header));
  NMM_TRY(read_rotates(fields, header));
  NMM_TRY(read_grid(fields, header));
  NMM_ASSIGN(header.model_flops, fields.number("model_flops"));
  NMM_ASSIGN(const auto alloc_fallback, fields.boolean("alloc_fallback"));
  header.alloc_fallback = alloc_fallback.value_or(false);
  NMM_TRY(check_references(header, fields.source()));
  return header;
}

}  // namespace neuronmm::trace
