#include "plot/scatter_chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "plot/svg.h"

namespace neuronmm::apps {
namespace {

// Sizes in pixels. Two charts stand side by side in a page.
constexpr double kChartWidth = 560, kChartLeft = 76, kChartRight = 24, kChartHeight = 260;
constexpr double kTitle = 38;  // The height of the title; the legend is below it.

struct ChartScale {
  Axis x, y;
  double top;

  double x_pixel(double value) const {
    return kChartLeft + (kChartWidth - kChartLeft - kChartRight) * x.fraction(value);
  }
  // An interval may reach below a logarithmic axis, so the place is clamped.
  double y_pixel(double value) const {
    const double fraction = y.fraction(value);
    return top +
           kChartHeight * (1.0 - (std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0.0));
  }
};

Axis vertical_axis(const ScatterChart& chart) {
  std::vector<double> values, ends;
  for (const ScatterPoint& point : chart.line) values.push_back(point.y);
  ends = values;
  for (const ScatterPoint& point : chart.points) {
    if (!std::isfinite(point.y)) continue;
    values.push_back(point.y);
    ends.insert(ends.end(), {point.y, point.low, point.high});
  }
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const bool logarithmic = !values.empty() && *least > 0.0 && *most > 10.0 * *least;
  if (logarithmic) {
    // Upper ends of intervals count. A lower end may lie anywhere down to zero and below.
    for (const ScatterPoint& point : chart.points) values.push_back(point.high);
    return {values, Axis::Scale::kLogarithmic, false};
  }
  return {ends, Axis::Scale::kLinear, false};
}

Axis horizontal_axis(const ScatterChart& chart) {
  std::vector<double> values;
  for (const ScatterPoint& point : chart.line) values.push_back(point.x);
  for (const ScatterPoint& point : chart.points) values.push_back(point.x);
  return {values, chart.logarithmic_x ? Axis::Scale::kLogarithmic : Axis::Scale::kLinear, false};
}

std::string line(double x1, double y1, double x2, double y2, const std::string& more) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, more);
}

std::string scatter_grid(const ScatterChart& chart, const ChartScale& scale) {
  const std::string pale = "stroke=\"currentColor\" stroke-opacity=\"0.15\"";
  const double right = kChartWidth - kChartRight, bottom = scale.top + kChartHeight;
  std::string svg;
  for (const double tick : scale.y.ticks()) {
    const double y = scale.y_pixel(tick);
    svg += line(kChartLeft, y, right, y, pale);
    svg += svg_text(kChartLeft - 8, y + 4, "text-anchor=\"end\"", tick_text(tick));
  }
  for (const double tick : scale.x.ticks()) {
    const double x = scale.x_pixel(tick);
    svg += line(x, scale.top, x, bottom, pale);
    svg += svg_text(x, bottom + 18, "text-anchor=\"middle\"", tick_text(tick));
  }
  const double middle = bottom - kChartHeight / 2;
  svg += svg_text(16, middle,
                  fmt::format("text-anchor=\"middle\" transform=\"rotate(-90 16 {:.1f})\"", middle),
                  chart.y_name);
  return svg +
         svg_text((kChartLeft + right) / 2, bottom + 40, "text-anchor=\"middle\"", chart.x_name);
}

// Returns a shift to the side, in pixels. Models of one size would hide each other's intervals, so
// the second stands to the right of the first, the third to its left, and so on.
double sideways_shift(const ScatterChart& chart, const ChartScale& scale, size_t index) {
  constexpr double kIntervalDistance = 11;
  if (!std::isfinite(chart.points[index].low)) return 0.0;
  const auto near = [&](const ScatterPoint& point) {
    return std::isfinite(point.low) &&
           std::abs(scale.x_pixel(point.x) - scale.x_pixel(chart.points[index].x)) <
               kIntervalDistance;
  };
  const auto first = chart.points.begin();
  const auto before = std::count_if(first, first + static_cast<std::ptrdiff_t>(index), near);
  const std::ptrdiff_t steps = (before + 1) / 2;
  return (before % 2 == 1 ? kIntervalDistance : -kIntervalDistance) * static_cast<double>(steps);
}

// Draws a disk on its interval. Its numbers are a title, which a browser shows under the pointer.
std::string point_svg(const ScatterChart& chart, const ChartScale& scale, size_t index) {
  const ScatterPoint& point = chart.points[index];
  if (!std::isfinite(point.x) || !std::isfinite(point.y)) return {};
  const double x = scale.x_pixel(point.x) + sideways_shift(chart, scale, index),
               y = scale.y_pixel(point.y);
  const std::string stroke = fmt::format("stroke=\"{}\" stroke-width=\"2\"", point.colour);
  std::string svg, interval;
  if (std::isfinite(point.low) && std::isfinite(point.high)) {
    const double low = scale.y_pixel(point.low), high = scale.y_pixel(point.high);
    svg += line(x, low, x, high, stroke) + line(x - 5, low, x + 5, low, stroke) +
           line(x - 5, high, x + 5, high, stroke);
    interval = fmt::format(" ({:.4g} to {:.4g})", point.low, point.high);
  }
  return svg +
         fmt::format(
             "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" fill=\"{}\"><title>{}: {} {:.4g}{}, "
             "{} {:.5g}</title></circle>\n",
             x, y, point.colour, escape_xml(point.name), escape_xml(chart.y_name), point.y,
             interval, escape_xml(chart.x_name), point.x);
}

std::string line_svg(const ScatterChart& chart, const ChartScale& scale) {
  if (chart.line.empty()) return {};
  std::string points;
  for (const ScatterPoint& point : chart.line) {
    points += fmt::format("{:.1f},{:.1f} ", scale.x_pixel(point.x), scale.y_pixel(point.y));
  }
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                     points, chart.line.front().colour);
}

}  // namespace

std::string scatter_figure(const ScatterChart& chart) {
  std::vector<LegendEntry> entries;
  if (!chart.line.empty()) entries.push_back({chart.line.front().name, chart.line.front().colour});
  for (const ScatterPoint& point : chart.points) entries.push_back({point.name, point.colour});
  const Legend legend =
      svg_legend(entries, kChartLeft, kTitle, kChartWidth - kChartLeft - kChartRight);
  const ChartScale scale = {horizontal_axis(chart), vertical_axis(chart),
                            kTitle + legend.height + 10};
  std::string body =
      svg_text(kChartLeft, 24, "font-size=\"15\" font-weight=\"bold\"", chart.title) + legend.svg +
      scatter_grid(chart, scale) + line_svg(chart, scale);
  for (size_t i = 0; i < chart.points.size(); ++i) body += point_svg(chart, scale, i);
  return svg_figure(kChartWidth, scale.top + kChartHeight + 52, body);
}

}  // namespace neuronmm::apps
