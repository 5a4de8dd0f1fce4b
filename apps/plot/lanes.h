#pragma once
// This file draws how busy several workers are over time, with one strip per worker, as SVG.

#include <string>
#include <vector>

namespace neuronmm::apps {

// The strip of one worker.
struct Lane {
  std::string name, colour;  // The colour is text such as "#4878a8".
  // The busy share of each of equal steps of time: 0 is idle, 1 is busy.
  std::vector<double> shares;
};

// A chart of several strips with one time axis.
struct LaneChart {
  std::string title, unit;  // The unit of time, such as "us".
  double step = 1.0;        // The length of one step, in that unit.
  double end = 1.0;         // The end of the time axis.
  std::vector<Lane> lanes = {};
};

// Returns the chart as a part of a page.
std::string lanes_figure(const LaneChart& chart);

}  // namespace neuronmm::apps
