#include "paper/svg_plot.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace neuronmm::apps {
namespace {

// In pixels. A chart is as wide as a page of documentation and as high as its text leaves readable.
constexpr double kWidth = 1040, kLeft = 80, kRight = 20, kTop = 74, kPlotHeight = 280;
constexpr double kManyGroups = 12;  // more: their names are written upwards

// Names come from the tables and may hold what XML reserves.
std::string escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else
      escaped += c;
  }
  return escaped;
}

std::string text_at(double x, double y, const char* more, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, more, escape(text));
}

// The vertical axis: from value to height above the base, and its ticks.
class Axis {
 public:
  explicit Axis(const BarChart& chart) : logarithmic_(chart.logarithmic) {
    double least = HUGE_VAL, most = -HUGE_VAL;
    // A bar whose value is not known (NaN) is left out, and must not stretch the axis.
    for (const BarSeries& series : chart.series) {
      for (const double value : series.values) {
        if (std::isnan(value)) continue;
        least = std::min(least, value);
        most = std::max(most, value);
      }
    }
    logarithmic_ ? set_logarithmic(least, most) : set_linear(least, most);
  }

  const std::vector<double>& ticks() const { return ticks_; }
  double height(double value) const {
    const auto place = [this](double v) { return logarithmic_ ? std::log10(v) : v; };
    return kPlotHeight * (place(value) - place(low_)) / (place(high_) - place(low_));
  }
  // Bars of a logarithmic axis stand on its lowest tick, others on zero.
  double base() const { return height(logarithmic_ ? low_ : 0); }

 private:
  // 1, 2, 5, 10, ... around the values.
  // The lowest tick lies below the smallest value by enough for its bar to be seen (1.3).
  void set_logarithmic(double least, double most) {
    const auto first = static_cast<int>(std::floor(std::log10(least)));
    const auto last = static_cast<int>(std::ceil(std::log10(most)));
    std::vector<double> all;
    for (int exponent = first - 1; exponent <= last; ++exponent) {
      for (const double step : {1.0, 2.0, 5.0}) all.push_back(step * std::pow(10.0, exponent));
    }
    const auto low = std::prev(std::upper_bound(all.begin(), all.end(), least / 1.3));
    const auto high = std::lower_bound(all.begin(), all.end(), most);
    ticks_.assign(low, std::min(std::next(high), all.end()));
    low_ = ticks_.front();
    high_ = ticks_.back();
  }

  // About six round steps that include zero.
  void set_linear(double least, double most) {
    least = std::min(least, 0.0);
    most = std::max(most, least == 0 && most <= 0 ? 1.0 : most);
    // Six steps, made round upwards: 1, 2, 5 or 10 times a power of ten.
    const double rough = (most - least) / 6;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    double step = 10 * power;
    for (const double factor : {5.0, 2.0, 1.0}) {
      if (factor * power >= rough) step = factor * power;
    }
    low_ = step * std::floor(least / step);
    high_ = step * std::ceil(most / step);
    for (double tick = low_; tick < high_ + step / 2; tick += step) ticks_.push_back(tick);
  }

  bool logarithmic_;
  double low_ = 0, high_ = 1;
  std::vector<double> ticks_;
};

// A swatch and a name per series. The width of a name is guessed at 6.8 pixels per character.
std::string legend(const BarChart& chart, double top) {
  std::string svg;
  double x = kLeft;
  for (const BarSeries& series : chart.series) {
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\" "
        "fill-opacity=\"{}\" stroke=\"{}\"/>\n",
        x, top + 40, series.colour, series.pale ? 0.3 : 1.0, series.colour);
    svg += text_at(x + 17, top + 51, "", series.name);
    x += 40 + 6.8 * static_cast<double>(series.name.size());
  }
  return svg;
}

std::string grid(const BarChart& chart, const Axis& axis, double bottom) {
  std::string svg;
  for (const double tick : axis.ticks()) {
    const double y = bottom - axis.height(tick);
    svg += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n",
                       kLeft, kWidth - kRight, y, y);
    svg += text_at(kLeft - 8, y + 4, "text-anchor=\"end\"",
                   fmt::format("{:.6g}", std::abs(tick) < 1e-9 ? 0 : tick));
  }
  const double middle = bottom - kPlotHeight / 2;
  const std::string upwards =
      fmt::format("text-anchor=\"middle\" transform=\"rotate(-90 20 {:.1f})\"", middle);
  return svg + text_at(20, middle, upwards.c_str(), chart.unit);
}

// The bars of a group stand side by side, or at one place when only one series has a value there.
// Every bar has its numbers as a title, which a browser shows when pointed at.
std::string bars(const BarChart& chart, const Axis& axis, double bottom) {
  std::string svg;
  const double group = (kWidth - kLeft - kRight) / static_cast<double>(chart.groups.size());
  const size_t beside = chart.one_per_group ? 1 : chart.series.size();
  const double bar = 0.84 * group / static_cast<double>(beside);
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const BarSeries& series = chart.series[s];
    for (size_t g = 0; g < chart.groups.size(); ++g) {
      const double value = series.values[g];
      if (std::isnan(value) || (chart.logarithmic && value <= 0)) continue;
      const double x =
          kLeft + group * (static_cast<double>(g) + 0.08) + bar * static_cast<double>(s % beside);
      const double from = axis.base(), to = axis.height(value);
      const double y = bottom - std::max(from, to);
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" "
          "fill-opacity=\"{}\" stroke=\"{}\"><title>{} {}: {:.4g} {}</title></rect>\n",
          x, y, 0.92 * bar, std::abs(to - from), series.colour, series.pale ? 0.3 : 1.0,
          series.colour, escape(series.name), escape(chart.groups[g]), value, escape(chart.unit));
      if (bar < 30) continue;  // no room for its value
      svg += text_at(x + 0.46 * bar, value < 0 ? bottom - to + 12 : y - 3,
                     "text-anchor=\"middle\" font-size=\"10\"", fmt::format("{:.4g}", value));
    }
  }
  return svg;
}

bool upright(const BarChart& chart) {
  return static_cast<double>(chart.groups.size()) <= kManyGroups;
}

// Many names would overlap when written across; they are turned and take more room below.
std::string group_names(const BarChart& chart, double bottom) {
  std::string svg;
  const double group = (kWidth - kLeft - kRight) / static_cast<double>(chart.groups.size());
  for (size_t g = 0; g < chart.groups.size(); ++g) {
    const double x = kLeft + group * (static_cast<double>(g) + 0.5);
    if (upright(chart)) {
      svg += text_at(x, bottom + 18, "text-anchor=\"middle\"", chart.groups[g]);
    } else {
      const std::string turned = fmt::format(
          "text-anchor=\"end\" transform=\"rotate(-60 {:.1f} {:.1f})\"", x + 4, bottom + 12);
      svg += text_at(x + 4, bottom + 12, turned.c_str(), chart.groups[g]);
    }
  }
  const double below = upright(chart) ? 40 : 190;
  return svg + text_at(kLeft + (kWidth - kLeft - kRight) / 2, bottom + below,
                       "text-anchor=\"middle\"", chart.groups_name);
}

double height_of(const BarChart& chart) { return kTop + kPlotHeight + (upright(chart) ? 60 : 210); }

}  // namespace

// The charts stand below one another in one picture.
std::string to_svg(const std::vector<BarChart>& charts) {
  double top = 0;
  std::string body;
  for (const BarChart& chart : charts) {
    const Axis axis(chart);
    const double bottom = top + kTop + kPlotHeight;
    body += text_at(kLeft, top + 26, "font-size=\"16\" font-weight=\"bold\"", chart.title);
    body += legend(chart, top) + grid(chart, axis, bottom) + bars(chart, axis, bottom) +
            group_names(chart, bottom);
    body += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#333\"/>\n",
                        kLeft, kWidth - kRight, bottom - axis.base(), bottom - axis.base());
    top += height_of(chart);
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n{2}</svg>\n",
      kWidth, top, body);
}

}  // namespace neuronmm::apps
