#pragma once
// Parallel loops over many small elements, such as the logits of a vocabulary. They are divided
// into pieces that are each worth a task.

#include <algorithm>
#include <cstdint>

#include "base/parallel.h"

namespace neuronmm {

// The work of a piece, in multiply-adds on data in cache. A core does as many in the time that
// starting a parallel loop takes (kSerialWork of cpu/tasks.h).
inline constexpr int64_t kPieceWork = 100'000;

// Runs body(first, last) on contiguous pieces of [0, count), on all threads if there are several.
// `element_work` is the cost of an element in multiply-adds: an fp32 from memory costs about 4, and
// an exponential in fp64 about 500 (10 ns). Both are assumed.
template <typename Body>
void for_each_piece(int64_t count, int64_t element_work, const Body& body,
                    CodePlace where = CodePlace::current()) {
  const int64_t work = count * element_work;
  const int64_t most = std::min<int64_t>(count, num_threads());
  const int64_t pieces = std::clamp<int64_t>(work / kPieceWork, 1, std::max<int64_t>(most, 1));
  if (count == 0) return;
  parallel_for(pieces, [&](int64_t i) { body(count * i / pieces, count * (i + 1) / pieces); },
               {where, work});
}

}  // namespace neuronmm
