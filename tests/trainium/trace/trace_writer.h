#pragma once
// Writes traces for tests. It shares no code with the reader, only the page that describes the
// format.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace neuronmm::trace {

class TraceWriter {
 public:
  using Json = nlohmann::json;
  // The pairs [stride, count] of an access, outermost first.
  using Axes = std::vector<std::pair<int64_t, int64_t>>;
  struct View {
    uint32_t tensor = 0;
    Axes axes;
    int64_t offset = 0;
  };

  explicit TraceWriter(const std::string& dialect = "nki", const std::string& device = "trn2");

  // Adds a tensor, and its kind if it is new. `line` is its line in kernel.py. `partition` is the
  // first partition of a tensor on chip with an address.
  uint32_t tensor(const std::string& name, const std::string& memory, const std::string& dtype,
                  const std::vector<int64_t>& shape, int line, int64_t address = -1,
                  uint32_t partition = 0);
  uint32_t input(const std::string& name, const std::string& dtype,
                 const std::vector<int64_t>& shape);
  uint32_t output(const std::string& name, const std::string& dtype,
                  const std::vector<int64_t>& shape);
  uint32_t view(uint32_t parent, const std::string& name, const std::string& memory,
                const std::string& dtype, const std::vector<int64_t>& shape, int64_t byte_offset,
                int line);

  View all(uint32_t tensor) const;  // Returns the whole of a tensor.
  // Returns the columns [first, first + count) of the first `partitions` partitions of an on-chip
  // tensor.
  View columns(uint32_t tensor, int64_t first, int64_t count, int64_t partitions = 0) const;

  void run(const std::string& name, const std::string& engine,
           const std::vector<std::pair<std::string, View>>& operands, int line,
           const Json& attributes = Json::object());
  void loop(uint16_t record_kind, uint32_t loop, int line);
  void release(uint32_t tensor, int line);

  Json& header() { return header_; }
  std::vector<std::byte> records() const { return records_; }
  std::vector<std::byte> finish() const;
  static std::vector<std::byte> file(const std::string& header,
                                     const std::vector<std::byte>& records);

 private:
  struct Tensor {
    uint32_t kind;
    std::vector<int64_t> shape;
    bool on_chip;
  };
  uint32_t add(const std::string& name, const std::string& memory, const std::string& dtype,
               const std::vector<int64_t>& shape, const std::string& role, int line,
               int64_t address, uint32_t partition, int64_t parent);
  uint32_t intern(const std::string& list, const Json& value);
  uint32_t source(int line);
  template <typename Number>
  void append_number(Number value);
  void head(uint16_t kind, uint16_t count, uint32_t subject, uint32_t line, uint32_t extra);

  Json header_;
  std::map<std::string, uint32_t> known_;  // Indices of entries in the header, by list and text.
  std::vector<Tensor> tensors_;
  int64_t instructions_ = 0;
  std::vector<std::byte> records_;
};

}  // namespace neuronmm::trace
