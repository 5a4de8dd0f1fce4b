#pragma once
// This file draws scatter charts as SVG, with one point per model and a bar for the interval of
// each point. The HTML pages of `compare`, `fit` and `nki` use it. Nothing here can fail.

#include <limits>
#include <string>
#include <vector>

namespace neuronmm::apps {

// A point with its interval.
struct ScatterPoint {
  std::string name, colour;  // The colour is text such as "#4878a8".
  double x = 0.0, y = 0.0;   // NaN means that the value is not known; such a point is left out.
  // The interval around y, or NaN if it is not known.
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
};

// A chart of points and an optional line.
struct ScatterChart {
  std::string title, x_name, y_name;
  std::vector<ScatterPoint> points = {};
  // Points that are joined by a line with the name and colour of the first point.
  std::vector<ScatterPoint> line = {};
  bool logarithmic_x = false;  // True for a logarithmic x axis, which needs positive x.
};

// Returns the chart as an SVG element of an HTML page. The vertical axis is logarithmic if all
// values are positive and the largest is more than ten times the smallest.
std::string scatter_figure(const ScatterChart& chart);

}  // namespace neuronmm::apps
