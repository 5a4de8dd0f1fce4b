#include "base/freed_memory.h"

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace neuronmm {

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kLargestKept = 1 << 30;  // bytes; assumed: the matrices of 2,048 tokens are smaller
  mallopt(M_MMAP_THRESHOLD, kLargestKept);
  mallopt(M_TRIM_THRESHOLD, kLargestKept);
#endif
}

void return_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace neuronmm
