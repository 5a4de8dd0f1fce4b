#include "compress/layer_job.h"

namespace neuronmm::compress {

Bytes job_answer(const RunJob& run, const JobContext& context, const LayerJob& job) {
  const auto result = run(context, job);
  MessageWriter out;
  out.put(result.ok());
  if (result.ok()) {
    out.append(*result);
  } else {
    out.put(result.error().message);
  }
  return out.take();
}

}  // namespace neuronmm::compress
