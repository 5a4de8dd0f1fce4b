#include "plot/svg.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/printable.h"

namespace neuronmm::apps {

// Names come from files and may contain any character.
std::string escape_xml(const std::string& text) {
  std::string escaped;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string html_element(const char* tag, const std::string& text) {
  return fmt::format("<{0}>{1}</{0}>", tag, escape_xml(text));
}

std::string svg_text(double x, double y, const std::string& more, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"currentColor\" {}>{}</text>\n", x, y,
                     more, escape_xml(text));
}

Axis::Axis(const std::vector<double>& values, Scale scale, bool with_zero) : scale_(scale) {
  const bool logarithmic = scale == Scale::kLogarithmic;
  double least = HUGE_VAL, most = -HUGE_VAL;
  for (const double value : values) {
    if (!std::isfinite(value) || (logarithmic && value <= 0.0)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (least > most) least = most = 1.0;  // Without values the axis is arbitrary.
  if (logarithmic) {
    set_logarithmic(least, most);
    return;
  }
  if (with_zero) {
    least = std::min(least, 0.0);
    most = std::max(most, least == 0.0 && most <= 0.0 ? 1.0 : most);
  } else if (least == most) {  // A single value stands in the middle.
    const double around = least == 0.0 ? 1.0 : 0.1 * std::abs(least);
    least -= around;
    most += around;
  }
  set_linear(least, most);
}

double Axis::fraction(double value) const {
  const auto position = [this](double v) {
    return scale_ == Scale::kLogarithmic ? std::log10(v) : v;
  };
  return (position(value) - position(low_)) / (position(high_) - position(low_));
}

// The ticks are 1, 2, 5, 10, ... around the values. The lowest tick lies so far below the smallest
// value (by the factor 1.3) that its bar is visible.
void Axis::set_logarithmic(double least, double most) {
  const auto first = static_cast<int>(std::floor(std::log10(least)));
  const auto last = static_cast<int>(std::ceil(std::log10(most)));
  std::vector<double> all;
  for (int exponent = first - 1; exponent <= last; ++exponent) {
    for (const double step : {1.0, 2.0, 5.0}) all.push_back(step * std::pow(10.0, exponent));
  }
  const auto low = std::prev(std::upper_bound(all.begin(), all.end(), least / 1.3));
  const auto high = std::lower_bound(all.begin(), all.end(), most);
  ticks_.assign(low, high == all.end() ? high : std::next(high));
  low_ = ticks_.front();
  high_ = ticks_.back();
}

// The axis has about six steps. A step is 1, 2, 5 or 10 times a power of ten, rounded upwards.
void Axis::set_linear(double least, double most) {
  const double rough = (most - least) / 6;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= rough) step = factor * power;
  }
  low_ = step * std::floor(least / step);
  high_ = step * std::ceil(most / step);
  for (double tick = low_; tick < high_ + step / 2; tick += step) {
    ticks_.push_back(std::abs(tick) < 1e-9 * step ? 0.0 : tick);
  }
}

std::string tick_text(double tick) { return fmt::format("{:.6g}", tick); }

Legend svg_legend(const std::vector<LegendEntry>& entries, double left, double top, double width) {
  constexpr double kRow = 18, kSwatch = 12;
  Legend legend = {"", kRow};
  double x = left;
  for (const LegendEntry& entry : entries) {
    const double wide = 40 + 6.8 * static_cast<double>(entry.name.size());
    if (x > left && x + wide > left + width) {
      x = left;
      legend.height += kRow;
    }
    const double y = top + legend.height - kRow;
    legend.svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"{}\" "
        "fill-opacity=\"{}\" stroke=\"{}\"/>\n",
        x, y, kSwatch, kSwatch, entry.colour, entry.pale ? 0.3 : 1.0, entry.colour);
    legend.svg += svg_text(x + 17, y + 11, "", entry.name);
    x += wide;
  }
  return legend;
}

namespace {

constexpr const char* kFont = "font-family=\"sans-serif\" font-size=\"12\"";

}  // namespace

std::string svg_file(double width, double height, const std::string& body) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" {2}>\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n{3}"
      "</svg>\n",
      width, height, kFont, body);
}

std::string svg_figure(double width, double height, const std::string& body) {
  return fmt::format("<svg role=\"img\" viewBox=\"0 0 {} {}\" {}>\n{}</svg>\n", width, height,
                     kFont, body);
}

}  // namespace neuronmm::apps
