#pragma once
// This file holds the parts that every chart is drawn with: texts, axes, legends and the SVG
// element itself. bar_chart.cc, scatter_chart.cc and lanes.cc draw with them. The HTML pages of
// `nki`, `compare` and `fit` use escape_xml(). Text and lines take the colour of the page
// (currentColor), so a picture is also readable inside a dark page. Nothing here can fail.

#include <string>
#include <vector>

namespace neuronmm::apps {

// Escapes the characters that XML reserves, so that the result may also stand in an attribute.
// Bytes that XML cannot hold, such as control characters, become text such as "\x1b"
// (base/printable.h).
std::string escape_xml(const std::string& text);
// Returns <tag>text</tag>, where `text` is escaped.
std::string html_element(const char* tag, const std::string& text);

// Returns a text element whose base line begins at (x, y), in pixels. `more` are further
// attributes, which are written as they are. `text` is escaped.
std::string svg_text(double x, double y, const std::string& more, const std::string& text);

// An axis of a chart. It chooses ticks for a set of values, and maps values to places from 0 to 1.
class Axis {
 public:
  enum class Scale { kLinear, kLogarithmic };
  // Makes an axis that covers `values`. Values that are not finite are ignored, and on a
  // logarithmic axis so are values that are not positive. If no value is left, the axis covers 1. A
  // linear axis includes zero if `with_zero` is true. A logarithmic axis ignores `with_zero`, and
  // begins so far below the smallest value that a bar for this value is visible.
  Axis(const std::vector<double>& values, Scale scale, bool with_zero);

  const std::vector<double>& ticks() const { return ticks_; }
  // Returns the place of a value: 0 at the low end of the axis and 1 at the high end. A value
  // beyond the ends has a place outside [0, 1]. On a logarithmic axis the value must be positive.
  double fraction(double value) const;
  // Returns the place where bars begin: zero, or the lowest tick of a logarithmic axis.
  double base() const { return fraction(scale_ == Scale::kLogarithmic ? low_ : 0.0); }

 private:
  void set_logarithmic(double least, double most);
  void set_linear(double least, double most);

  Scale scale_;
  double low_ = 0.0, high_ = 1.0;
  std::vector<double> ticks_;
};
// Returns a tick as a number with at most six digits.
std::string tick_text(double tick);

// The name and colour of one series.
struct LegendEntry {
  std::string name, colour;  // The colour is text such as "#4878a8", which is not escaped.
  bool pale = false;         // True for the light swatch of a pale series (bar_chart.h).
};
struct Legend {
  std::string svg;
  double height = 0.0;  // The height of all rows, in pixels.
};
// Returns a legend with a swatch and a name per entry. The entries fill rows of `width` pixels,
// which go down from `top`. A character of a name is assumed to be 6.8 pixels wide.
Legend svg_legend(const std::vector<LegendEntry>& entries, double left, double top, double width);

// Returns an SVG file with a white background around a body of this size, in pixels.
std::string svg_file(double width, double height, const std::string& body);
// Returns an SVG element of an HTML page around a body of this size. The element grows or shrinks
// to the width that the page gives it.
std::string svg_figure(double width, double height, const std::string& body);

}  // namespace neuronmm::apps
