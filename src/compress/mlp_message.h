#pragma once
// The MLP of a layer as another process gets it. Matrices that are the model's own are not sent:
// whoever reads has the model.

#include <deque>

#include "compress/message.h"
#include "compress/mlp_metric.h"
#include "compress/mlp_statistics.h"
#include "ops/weights.h"

namespace neuronmm::compress {

// `own`: the layer's in the model folder. Of float weights.
void put_mlp(const ops::MlpWeight& mlp, const ops::MlpWeight& own, MessageWriter& out);

class ReceivedMlp {
 public:
  ReceivedMlp(MessageReader& in, const ops::MlpWeight& own);
  ReceivedMlp(const ReceivedMlp&) = delete;
  ReceivedMlp& operator=(const ReceivedMlp&) = delete;
  const ops::MlpWeight& weight() const { return weight_; }  // points into this

 private:
  TensorView tensor(MessageReader& in);
  ops::Pivots pivots(MessageReader& in);
  ops::LinearWeight linear(MessageReader& in, const ops::LinearWeight& own);

  ops::MlpWeight weight_;
  std::deque<std::vector<std::byte>> held_;
};

// What a process is told of a layer's MLP beside its weights.
void put_statistics(const MlpStatistics& statistics, MessageWriter& out);
MlpStatistics read_statistics(MessageReader& in);
void put_metric(const MlpMetric& metric, MessageWriter& out);
MlpMetric read_metric(MessageReader& in);

}  // namespace neuronmm::compress
