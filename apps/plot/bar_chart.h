#pragma once
// Grouped bar charts as SVG.

#include <string>
#include <vector>

namespace neuronmm::apps {

struct BarSeries {
  std::string name;
  std::string colour;          // "#4878a8"
  bool pale = false;           // outlined and light, to stand beside its dark sibling
  std::vector<double> values;  // one per group; NaN: none
};

struct BarChart {
  std::string title, unit;  // the unit names the vertical axis
  std::vector<std::string> groups = {};
  std::string groups_name = "";  // under the horizontal axis
  std::vector<BarSeries> series = {};
  bool one_per_group = false;  // each group has a value in one series only
  bool logarithmic = false;    // all values positive
};

// The charts below one another in one file.
std::string to_svg(const std::vector<BarChart>& charts);
// One chart as a part of a page.
std::string bar_figure(const BarChart& chart);

}  // namespace neuronmm::apps
