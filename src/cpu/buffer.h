#pragma once
// Grow-only memory for packed weights, caches and scratch: uninitialised and aligned to a cache
// line, so that a 512-bit load never touches two.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#include <sys/mman.h>

namespace neuronmm::cpu {

enum class Pages { kDefault, kHuge };

template <typename T>
class Buffer {
  static_assert(std::is_trivial_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(int64_t count, Pages pages = Pages::kDefault) { allocate(count, pages); }

  T* data() const { return memory_.get(); }
  // At least `count` elements; what they held is lost when that takes more memory.
  T* reserve(int64_t count) {
    if (count > capacity_) allocate(count, Pages::kDefault);
    return data();
  }

 private:
  static constexpr size_t kCacheLine = 64;
  static constexpr size_t kHugePage = size_t{2} << 20;  // x86-64 and arm64 with 4 KiB pages

  // Memory that is read end to end for every token wants huge pages: fewer TLB misses. A part of
  // one, at the end or alone, would only waste memory.
  void allocate(int64_t count, Pages pages) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    const bool huge = pages == Pages::kHuge && bytes >= kHugePage;
    const size_t alignment = huge ? kHugePage : kCacheLine;
    const size_t size = (bytes + alignment - 1) / alignment * alignment;
    memory_.reset();
    capacity_ = 0;
    memory_.reset(static_cast<T*>(std::aligned_alloc(alignment, size)));
    if (memory_ == nullptr && size > 0) throw std::bad_alloc();
    if (huge) madvise(memory_.get(), bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
    capacity_ = count;
  }

  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  std::unique_ptr<T[], Free> memory_;
  int64_t capacity_ = 0;
};

}  // namespace neuronmm::cpu
