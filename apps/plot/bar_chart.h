#pragma once
// This file draws grouped bar charts as SVG, for the figures of `paper` and the HTML pages of
// `compare` and `nki`. Every series must have one value per group; nothing checks this.

#include <string>
#include <vector>

namespace neuronmm::apps {

// The bars of one colour.
struct BarSeries {
  std::string name;
  std::string colour;  // A colour such as "#4878a8".
  // True for light, outlined bars, which stand next to dark bars of the same colour.
  bool pale = false;
  std::vector<double> values;  // The values, one per group. NaN draws no bar.
};

// A chart with groups of bars.
struct BarChart {
  std::string title, unit;  // The unit is the label of the vertical axis.
  std::vector<std::string> groups = {};
  std::string groups_name = "";  // The label under the horizontal axis.
  std::vector<BarSeries> series = {};
  bool one_per_group = false;  // True if every group has a value in only one series.
  bool logarithmic = false;    // True for a logarithmic axis, which needs positive values.
};

// Returns the content of an SVG file with the charts below one another.
std::string to_svg(const std::vector<BarChart>& charts);
// Returns a chart as an SVG element of an HTML page.
std::string bar_figure(const BarChart& chart);

}  // namespace neuronmm::apps
