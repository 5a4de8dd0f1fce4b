#pragma once
// Sends the MLP of a layer, and what is known of it, to another process (message.h). Matrices that
// come unchanged from the model folder are not sent, because the other process has the model too.

#include <deque>

#include "compress/statistics/message.h"
#include "compress/statistics/mlp_metric.h"
#include "compress/statistics/mlp_statistics.h"
#include "ops/weights.h"

namespace neuronmm::compress {

// Writes an MLP of float weights. `own` is the layer's MLP in the model folder.
void put_mlp(const ops::MlpWeight& mlp, const ops::MlpWeight& own, MessageWriter& out);

// An MLP from a message. `own` is the layer's MLP in the model folder of this process.
class ReceivedMlp {
 public:
  ReceivedMlp(MessageReader& in, const ops::MlpWeight& own);
  ReceivedMlp(const ReceivedMlp&) = delete;
  ReceivedMlp& operator=(const ReceivedMlp&) = delete;
  // Returns the weights, which point into this object.
  const ops::MlpWeight& weight() const { return weight_; }

 private:
  TensorView tensor(MessageReader& in);
  ops::Pivots pivots(MessageReader& in);
  ops::LinearWeight linear(MessageReader& in, const ops::LinearWeight& own);

  ops::MlpWeight weight_;
  std::deque<std::vector<std::byte>> held_;
};

// Write and read the statistics and the metric of a layer's MLP.
void put_statistics(const MlpStatistics& statistics, MessageWriter& out);
MlpStatistics read_statistics(MessageReader& in);
void put_metric(const MlpMetric& metric, MessageWriter& out);
MlpMetric read_metric(MessageReader& in);

}  // namespace neuronmm::compress
