#include "plot/lanes.h"

#include <algorithm>

#include <fmt/format.h>

#include "plot/svg.h"

namespace neuronmm::apps {
namespace {

// Sizes in pixels.
constexpr double kLanesWidth = 1160, kLanesLeft = 76, kLanesRight = 24, kLanesTop = 40;
constexpr double kBetweenLanes = 10, kNoteHeight = 14;

// Returns the height of a lane with its note and the gap below it.
double full_height(const Lane& lane) {
  return lane.height + kBetweenLanes + (lane.note.empty() ? 0 : kNoteHeight);
}

double lane_x(const LaneChart& chart, double time) {
  return kLanesLeft + (kLanesWidth - kLanesLeft - kLanesRight) * time / chart.end;
}

std::string limit_svg(const Lane& lane, double bottom) {
  if (!lane.limit) return "";
  return fmt::format(
      "<line x1=\"{0}\" y1=\"{2:.1f}\" x2=\"{1}\" y2=\"{2:.1f}\" stroke=\"currentColor\" "
      "stroke-dasharray=\"5 4\"/>\n",
      kLanesLeft, kLanesWidth - kLanesRight, bottom - lane.height * *lane.limit);
}

// Returns the area below the shares, as steps.
std::string lane_svg(const LaneChart& chart, const Lane& lane, double above) {
  const double top = above + (lane.note.empty() ? 0 : kNoteHeight), bottom = top + lane.height;
  std::string points = fmt::format("{:.1f},{:.1f} ", kLanesLeft, bottom);
  for (size_t i = 0; i < lane.shares.size(); ++i) {
    const double begin = std::min(chart.end, chart.step * static_cast<double>(i));
    const double end = std::min(chart.end, begin + chart.step);
    const double y = bottom - lane.height * std::clamp(lane.shares[i], 0.0, 1.0);
    points += fmt::format("{0:.1f},{2:.1f} {1:.1f},{2:.1f} ", lane_x(chart, begin),
                          lane_x(chart, end), y);
  }
  points += fmt::format("{:.1f},{:.1f}", lane_x(chart, chart.end), bottom);
  return svg_text(kLanesWidth - kLanesRight, top - 3, "text-anchor=\"end\"", lane.note) +
         svg_text(kLanesLeft - 8, top + lane.height / 2 + 4, "text-anchor=\"end\"", lane.name) +
         fmt::format(
             "<line x1=\"{0}\" y1=\"{2:.1f}\" x2=\"{1}\" y2=\"{2:.1f}\" "
             "stroke=\"currentColor\" stroke-opacity=\"0.3\"/>\n",
             kLanesLeft, kLanesWidth - kLanesRight, bottom) +
         fmt::format("<polygon points=\"{}\" fill=\"{}\"/>\n", points, lane.colour) +
         limit_svg(lane, bottom);
}

}  // namespace

std::string lanes_figure(const LaneChart& chart) {
  double height = 0;
  for (const Lane& lane : chart.lanes) height += full_height(lane);
  const double bottom = kLanesTop + height;
  std::string body = svg_text(kLanesLeft, 24, "font-size=\"15\" font-weight=\"bold\"", chart.title);
  const Axis time({0.0, chart.end}, Axis::Scale::kLinear, true);
  for (const double tick : time.ticks()) {
    if (tick > chart.end) break;
    const double x = lane_x(chart, tick);
    body += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" "
        "stroke=\"currentColor\" stroke-opacity=\"0.15\"/>\n",
        x, kLanesTop, bottom);
    body += svg_text(x, bottom + 18, "text-anchor=\"middle\"", tick_text(tick));
  }
  double top = kLanesTop;
  for (const Lane& lane : chart.lanes) {
    body += lane_svg(chart, lane, top);
    top += full_height(lane);
  }
  body += svg_text((kLanesLeft + kLanesWidth - kLanesRight) / 2, bottom + 38,
                   "text-anchor=\"middle\"", chart.unit);
  return svg_figure(kLanesWidth, bottom + 48, body);
}

}  // namespace neuronmm::apps
