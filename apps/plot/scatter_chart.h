#pragma once
// A point per model, with the bar of its interval.

#include <limits>
#include <string>
#include <vector>

namespace neuronmm::apps {

struct ScatterPoint {
  std::string name, colour;  // "#4878a8"
  double x = 0.0, y = 0.0;   // NaN: not known, and left out
  // The interval around y.
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
};

struct ScatterChart {
  std::string title, x_name, y_name;
  std::vector<ScatterPoint> points = {};
  // Joined by a line of the first one's name and colour.
  std::vector<ScatterPoint> line = {};
  bool logarithmic_x = false;  // all of x are positive
};

// As a part of a page. The vertical axis is logarithmic where all values are positive and the
// largest is more than ten times the smallest.
std::string scatter_figure(const ScatterChart& chart);

}  // namespace neuronmm::apps
