#pragma once
// What every chart is drawn with. Text and lines take the colour of the page (currentColor), so
// that a picture inside a page is readable on a dark one, too.

#include <string>
#include <vector>

namespace neuronmm::apps {

// What XML reserves, also in attributes; control characters that it cannot hold become spaces.
std::string escape_xml(const std::string& text);

// A text whose base line begins at (x, y), in pixels; `more` are attributes.
std::string svg_text(double x, double y, const std::string& more, const std::string& text);

// From values to ticks and to a place between 0 and 1.
class Axis {
 public:
  enum class Scale { kLinear, kLogarithmic };
  // `values` that are NaN, and on a logarithmic axis those that are not positive, do not count. A
  // linear axis includes zero where `with_zero`. A logarithmic one begins below the smallest value
  // by enough for its bar to be seen.
  Axis(const std::vector<double>& values, Scale scale, bool with_zero);

  const std::vector<double>& ticks() const { return ticks_; }
  double place(double value) const;  // outside [0, 1] where the axis does not reach
  // Where bars stand: on zero, or on the lowest tick of a logarithmic axis.
  double base() const { return place(scale_ == Scale::kLogarithmic ? low_ : 0.0); }

 private:
  void set_logarithmic(double least, double most);
  void set_linear(double least, double most);

  Scale scale_;
  double low_ = 0.0, high_ = 1.0;
  std::vector<double> ticks_;
};
std::string tick_text(double tick);

struct LegendEntry {
  std::string name, colour;
  bool pale = false;
};
// A swatch and a name each, in as many rows as fit `width`, from the row at `top` down. The width
// of a name is guessed at 6.8 pixels per character.
struct Legend {
  std::string svg;
  double height = 0.0;
};
Legend svg_legend(const std::vector<LegendEntry>& entries, double left, double top, double width);

// The element around a body of this size: as a file of its own on white, or as a part of a page,
// where it is as wide as its place.
std::string svg_file(double width, double height, const std::string& body);
std::string svg_figure(double width, double height, const std::string& body);

}  // namespace neuronmm::apps
