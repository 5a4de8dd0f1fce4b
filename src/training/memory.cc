#include "training/memory.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <new>

#include "base/pieces.h"

namespace neuronmm::training {
namespace {

// Smaller matrices are cheap to allocate.
constexpr int64_t kPooledElements = 1 << 14;
// Copying or clearing an element costs as much as this many multiply-adds. Assumed.
constexpr int64_t kMoveWork = 2;

// Free memory by its size.
template <typename Element>
class Pool {
 public:
  static Pool& instance() {
    static Pool* const pool = new Pool;  // threads may outlive static objects
    return *pool;
  }
  cpu::Buffer<Element> take(int64_t count) {
    const std::lock_guard lock(mutex_);
    cpu::Buffer<Element> buffer = take_free(count);
    in_use_ += count;
    return buffer;
  }
  void give_back(int64_t count, cpu::Buffer<Element> buffer) {
    const std::lock_guard lock(mutex_);
    in_use_ -= count;
    free_.emplace(count, std::move(buffer));
  }
  int64_t bytes_in_use() {
    const std::lock_guard lock(mutex_);
    return in_use_ * static_cast<int64_t>(sizeof(Element));
  }
  void drop() {
    const std::lock_guard lock(mutex_);
    free_.clear();
  }

 private:
  // Memory of other sizes is given up before an allocation may fail.
  cpu::Buffer<Element> take_free(int64_t count) {
    if (const auto found = free_.find(count); found != free_.end()) {
      cpu::Buffer<Element> buffer = std::move(found->second);
      free_.erase(found);
      return buffer;
    }
    try {
      return cpu::Buffer<Element>(count, cpu::Pages::kHuge);
    } catch (const std::bad_alloc&) {
      if (free_.empty()) throw;
      free_.clear();
      return cpu::Buffer<Element>(count, cpu::Pages::kHuge);
    }
  }

  std::mutex mutex_;
  std::multimap<int64_t, cpu::Buffer<Element>> free_;
  int64_t in_use_ = 0;
};

// Sizes are rounded up to eight steps per power of two, so that similar ones share memory.
int64_t rounded_up(int64_t count) {
  int64_t step = kPooledElements / 8;
  while (step * 16 < count) step *= 2;
  return (count + step - 1) / step * step;
}

}  // namespace

template <typename Element>
Pooled<Element>::Pooled(int64_t count) {
  if (count < kPooledElements) {
    buffer_ = cpu::Buffer<Element>(std::max<int64_t>(count, 1));
    return;
  }
  count_ = rounded_up(count);
  buffer_ = Pool<Element>::instance().take(count_);
}

template <typename Element>
Pooled<Element>::~Pooled() {
  if (count_ > 0) Pool<Element>::instance().give_back(count_, std::move(buffer_));
}

int64_t pooled_bytes_in_use() {
  return Pool<float>::instance().bytes_in_use() + Pool<uint32_t>::instance().bytes_in_use();
}

void drop_pooled_memory() {
  Pool<float>::instance().drop();
  Pool<uint32_t>::instance().drop();
}

template <typename T>
Rows<T> copy_of(MatrixView<const T> x) {
  Rows<T> copy(x.rows, x.columns);
  for_each_piece(x.rows, kMoveWork * x.columns, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) std::copy_n(x.row(i), x.columns, copy.row(i));
  });
  return copy;
}

template <typename T>
void clear(MatrixView<T> x) {
  for_each_piece(x.rows, kMoveWork * x.columns, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) std::fill_n(x.row(i), x.columns, T{0});
  });
}

template class Pooled<float>;
template class Pooled<uint32_t>;
template Rows<float> copy_of(MatrixView<const float>);
template Rows<double> copy_of(MatrixView<const double>);
template void clear(MatrixView<float>);
template void clear(MatrixView<double>);

}  // namespace neuronmm::training
