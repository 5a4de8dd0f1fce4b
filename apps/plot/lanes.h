#pragma once
// This file draws how busy several workers are over time, with one strip per worker, as SVG. The
// page of `neuronmm nki` (kernel/nki_page.h) shows the engines, the DMA queues and the memory in
// use of a NeuronCore with it. Nothing here can fail.

#include <optional>
#include <string>
#include <vector>

namespace neuronmm::apps {

// The strip of one worker.
struct Lane {
  std::string name, colour;  // The colour is text such as "#4878a8".
  // The busy share of each step of time, from time 0 on: 0 is idle, 1 is busy. Smaller and larger
  // shares are drawn as 0 and 1. Steps after the end of the axis are cut off, and missing steps are
  // idle.
  std::vector<double> shares = {};
  double height = 44;                // In pixels.
  std::string note = {};             // A text above the strip; empty if there is none.
  std::optional<double> limit = {};  // A share at which a dashed line is drawn.
};

// A chart of several strips with one time axis.
struct LaneChart {
  std::string title, unit;  // The unit of time, such as "us".
  double step = 1.0;        // The length of one step, in that unit.
  double end = 1.0;         // The end of the time axis, in that unit; it must be positive.
  std::vector<Lane> lanes = {};
};

// Returns the chart as an SVG element of an HTML page.
std::string lanes_figure(const LaneChart& chart);

}  // namespace neuronmm::apps
