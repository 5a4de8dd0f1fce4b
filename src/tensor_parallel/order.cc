#include "tensor_parallel/order.h"

#include <cstring>

#include "base/result.h"

namespace neuronmm::tensor_parallel {
namespace {

using Bytes = parallel::Communicator::Bytes;

// Lists the fields of an order for encoding and for decoding.
class Writer {
 public:
  template <typename T>
  void value(const T& value) {
    const auto* const first = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), first, first + sizeof(T));
  }
  template <typename List>
  void values(const List& list) {
    value(static_cast<int64_t>(list.size()));
    const auto* const first = reinterpret_cast<const std::byte*>(list.data());
    bytes.insert(bytes.end(), first, first + list.size() * sizeof(list[0]));
  }
  template <typename List>
  int64_t count(const List& list) {
    value(static_cast<int64_t>(list.size()));
    return static_cast<int64_t>(list.size());
  }
  Bytes bytes;
};

class Reader {
 public:
  explicit Reader(const Bytes& from) : bytes_(from) {}
  template <typename T>
  void value(T& value) {
    NMM_CHECK(next_ + sizeof(T) <= bytes_.size());
    std::memcpy(&value, bytes_.data() + next_, sizeof(T));
    next_ += sizeof(T);
  }
  template <typename List>
  void values(List& list) {
    int64_t size = 0;
    value(size);
    list.resize(static_cast<size_t>(size));
    const size_t length = list.size() * sizeof(list[0]);
    NMM_CHECK(next_ + length <= bytes_.size());
    if (length > 0) std::memcpy(list.data(), bytes_.data() + next_, length);
    next_ += length;
  }
  template <typename List>
  int64_t count(List& list) {
    int64_t size = 0;
    value(size);
    list.resize(static_cast<size_t>(size));
    return size;
  }

 private:
  const Bytes& bytes_;
  size_t next_ = 0;
};

template <typename Stream, typename OrderType>
void fields(Stream& stream, OrderType& order) {
  stream.value(order.kind);
  stream.value(order.model);
  stream.value(order.from);
  stream.value(order.to);
  stream.values(order.text);
  stream.values(order.freed);
  stream.count(order.sequences);
  for (auto& sequence : order.sequences) {
    stream.values(sequence.tokens);
    stream.values(sequence.blocks);
    stream.value(sequence.length);
    stream.value(sequence.capacity_tokens);
    stream.value(sequence.dtype);
    stream.value(sequence.logits);
    stream.value(sequence.long_rope);
    stream.count(sequence.wanted);
    for (auto& row : sequence.wanted) {
      stream.value(row.all);
      stream.values(row.named);
      stream.value(row.num_best);
      stream.value(row.log_sum);
    }
  }
}

}  // namespace

Bytes encode(const Order& order) {
  Writer writer;
  fields(writer, order);
  return std::move(writer.bytes);
}

Order decode(const Bytes& bytes) {
  Order order;
  Reader reader(bytes);
  fields(reader, order);
  return order;
}

void send(parallel::Communicator& communicator, const Order& order) {
  Bytes bytes = encode(order);
  communicator.broadcast(bytes);
}

Order receive(parallel::Communicator& communicator) {
  Bytes bytes;
  communicator.broadcast(bytes);
  return decode(bytes);
}

}  // namespace neuronmm::tensor_parallel
