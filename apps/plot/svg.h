#pragma once
// This file holds the parts that every chart is drawn with. Text and lines take the colour of the
// page (currentColor), so a picture is also readable inside a dark page.

#include <string>
#include <vector>

namespace neuronmm::apps {

// Escapes the characters that XML reserves, also in attributes. Control characters that XML cannot
// hold become spaces.
std::string escape_xml(const std::string& text);

// Returns a text whose base line begins at (x, y), in pixels. `more` are attributes.
std::string svg_text(double x, double y, const std::string& more, const std::string& text);

// Maps values to ticks and to places between 0 and 1.
class Axis {
 public:
  enum class Scale { kLinear, kLogarithmic };
  // Ignores `values` that are NaN and, on a logarithmic axis, those that are not positive. A linear
  // axis includes zero if `with_zero` is true. A logarithmic axis begins so far below the smallest
  // value that its bar is visible.
  Axis(const std::vector<double>& values, Scale scale, bool with_zero);

  const std::vector<double>& ticks() const { return ticks_; }
  // Returns a place outside [0, 1] for a value beyond the ends of the axis.
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
std::string tick_text(double tick);

// The name and colour of one series.
struct LegendEntry {
  std::string name, colour;
  bool pale = false;
};
// A legend with a swatch and a name per entry. The rows fill `width` and go down from `top`. A
// character of a name is assumed to be 6.8 pixels wide.
struct Legend {
  std::string svg;
  double height = 0.0;
};
Legend svg_legend(const std::vector<LegendEntry>& entries, double left, double top, double width);

// Return the SVG element around a body of this size. svg_file makes a file of its own with a white
// background. svg_figure makes a part of a page that is as wide as its place.
std::string svg_file(double width, double height, const std::string& body);
std::string svg_figure(double width, double height, const std::string& body);

}  // namespace neuronmm::apps
