#pragma once
// How busy several workers are over time: a strip for each, one below the other.

#include <string>
#include <vector>

namespace neuronmm::apps {

struct Lane {
  std::string name, colour;    // "#4878a8"
  std::vector<double> shares;  // of equal steps of time: 0 idle, 1 busy
};

struct LaneChart {
  std::string title, unit;  // of the time: "us"
  double step = 1.0;        // how long one of the shares is, in that unit
  double end = 1.0;         // of the time axis
  std::vector<Lane> lanes = {};
};

// As a part of a page.
std::string lanes_figure(const LaneChart& chart);

}  // namespace neuronmm::apps
