#include "trainium/trace/trace_writer.h"

#include <cstring>

namespace neuronmm::trace {

namespace {

template <typename Number>
void append(std::vector<std::byte>& bytes, Number value) {
  const auto* begin = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof(Number));
}

}  // namespace

TraceWriter::TraceWriter(const std::string& dialect, const std::string& device) {
  header_ = {{"kernel", "test"},         {"file", "kernel.py"},       {"dialect", dialect},
             {"device", device},         {"files", {"kernel.py"}},    {"sources", Json::array()},
             {"tensors", Json::array()}, {"patterns", Json::array()}, {"operations", Json::array()},
             {"loops", Json::array()},   {"outputs", Json::array()}};
}

uint32_t TraceWriter::intern(const std::string& list, const Json& value) {
  const std::string key = list + value.dump();
  const auto [at, inserted] = known_.try_emplace(key, static_cast<uint32_t>(header_[list].size()));
  if (inserted) header_[list].push_back(value);
  return at->second;
}

uint32_t TraceWriter::source(int line) {
  return intern("sources", Json::array({0, line, "kernel"}));
}

template <typename Number>
void TraceWriter::append_number(Number value) {
  append(records_, value);
}

void TraceWriter::head(uint16_t kind, uint16_t count, uint32_t subject, uint32_t line,
                       uint32_t extra) {
  append_number(kind);
  append_number(count);
  append_number(subject);
  append_number(line);
  append_number(extra);
}

uint32_t TraceWriter::add(const std::string& name, const std::string& memory,
                          const std::string& dtype, const std::vector<int64_t>& shape,
                          const std::string& role, int line, int64_t address, uint32_t partition,
                          int64_t parent) {
  Json kind = {{"name", name},   {"memory", memory}, {"dtype", dtype},
               {"shape", shape}, {"role", role},     {"source", source(line)}};
  if (parent >= 0) kind["view_of"] = tensors_[static_cast<size_t>(parent)].kind;
  const uint32_t id = intern("tensors", kind);
  head(1, 0, id, source(line), partition);
  append_number(address);
  append_number(parent);
  tensors_.push_back({id, shape, memory != "hbm"});
  return static_cast<uint32_t>(tensors_.size()) - 1;
}

uint32_t TraceWriter::tensor(const std::string& name, const std::string& memory,
                             const std::string& dtype, const std::vector<int64_t>& shape, int line,
                             int64_t address, uint32_t partition) {
  return add(name, memory, dtype, shape, memory == "hbm" ? "scratch" : "none", line, address,
             partition, -1);
}

uint32_t TraceWriter::input(const std::string& name, const std::string& dtype,
                            const std::vector<int64_t>& shape) {
  return add(name, "hbm", dtype, shape, "input", 1, -1, 0, -1);
}

uint32_t TraceWriter::output(const std::string& name, const std::string& dtype,
                             const std::vector<int64_t>& shape) {
  return add(name, "hbm", dtype, shape, "output", 1, -1, 0, -1);
}

uint32_t TraceWriter::view(uint32_t parent, const std::string& name, const std::string& memory,
                           const std::string& dtype, const std::vector<int64_t>& shape,
                           int64_t byte_offset, int line) {
  return add(name, memory, dtype, shape, "none", line, byte_offset, 0, parent);
}

TraceWriter::View TraceWriter::all(uint32_t tensor) const {
  const Tensor& t = tensors_[tensor];
  int64_t elements = 1;
  for (const int64_t size : t.shape) elements *= size;
  if (!t.on_chip) return {tensor, {{1, elements}}, 0};
  return columns(tensor, 0, elements / t.shape[0]);
}

TraceWriter::View TraceWriter::columns(uint32_t tensor, int64_t first, int64_t count,
                                       int64_t partitions) const {
  const Tensor& t = tensors_[tensor];
  int64_t row = 1;
  for (size_t d = 1; d < t.shape.size(); ++d) row *= t.shape[d];
  return {tensor, {{row, partitions > 0 ? partitions : t.shape[0]}, {1, count}}, first};
}

void TraceWriter::run(const std::string& name, const std::string& engine,
                      const std::vector<std::pair<std::string, View>>& operands, int line,
                      const Json& attributes) {
  Json roles = Json::array();
  for (const auto& [role, view] : operands) roles.push_back(role);
  const uint32_t operation =
      intern("operations",
             {{"name", name}, {"engine", engine}, {"operands", roles}, {"attributes", attributes}});
  head(0, static_cast<uint16_t>(operands.size()), operation, source(line), 0);
  for (const auto& [role, view] : operands) {
    Json axes = Json::array();
    for (const auto& [stride, count] : view.axes) axes.push_back({stride, count});
    append_number(view.tensor);
    append_number(intern("patterns", axes));
    append_number(view.offset);
  }
  ++instructions_;
}

void TraceWriter::loop(uint16_t record_kind, uint32_t loop, int line) {
  head(record_kind, 0, loop, source(line), 0);
}

void TraceWriter::release(uint32_t tensor, int line) { head(2, 0, tensor, source(line), 0); }

std::vector<std::byte> TraceWriter::finish() const {
  Json header = header_;
  header["counts"] = {{"instructions", instructions_}, {"tensors", tensors_.size()}};
  return file(header.dump(), records_);
}

std::vector<std::byte> TraceWriter::file(const std::string& header,
                                         const std::vector<std::byte>& records) {
  std::vector<std::byte> bytes(8);
  std::memcpy(bytes.data(), "NMMTRACE", 8);
  append(bytes, uint32_t{1});
  append(bytes, static_cast<uint32_t>(header.size()));
  for (const char c : header) bytes.push_back(static_cast<std::byte>(c));
  append(bytes, static_cast<uint64_t>(records.size()));
  bytes.insert(bytes.end(), records.begin(), records.end());
  return bytes;
}

}  // namespace neuronmm::trace
