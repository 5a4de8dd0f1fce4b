#pragma once
// The numbers of a program as Python expressions over the names of dimensions, steps and loops:
// `nl.ds(m * BM, m_size)`, `K // BK`, `(P, BK // P, BM)`. A name is used where the analysis of
// dimensions.h says that it is meant, not where its value happens to be the same; what has no name
// stays a number.

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trainium/nki/dimensions.h"
#include "trainium/nki/emitter.h"
#include "trainium/nki/names.h"
#include "trainium/tile/program.h"

namespace neuronmm::nki {

inline constexpr int64_t kP = 128;  // P in source: partitions
inline constexpr int64_t kF = 512;  // F in source: columns of a moving tile

class Expressions {
 public:
  Expressions(const tile::Program& program, const Description& description);

  const Names& names() const { return names_; }
  // Names of constants and helpers that any expression so far refers to.
  const std::set<std::string>& used() const { return used_; }

  // What stands between enter and leave is inside the loop. enter gives the assignments that the
  // loop's body begins with: the sizes of its ragged tiles.
  std::vector<std::string> enter(const tile::Loop& loop);
  void leave();

  std::string trips(const tile::Loop& loop);             // of a loop that is about to be entered
  std::string access(const tile::Access& access);        // "x[nl.ds(m * BM, BM), 0:k_size]"
  std::string shape(tile::BufferId buffer);              // "(P, BK // P, BM)"
  std::string view(tile::BufferId buffer);               // "x.reshape((P, K // P, N))"
  std::string access_shape(const tile::Access& access);  // "(P, m_size)": what an access covers
  std::string not_first(const std::vector<tile::LoopId>& loops);  // "(kt > 0)"
  std::string step(const tile::Loop& loop);                       // "BM", "P", "384"

 private:
  using Label = std::optional<size_t>;  // an index into Description::dimensions
  struct SizeVariable {
    tile::Size size;
    std::string name;
  };

  const tile::Loop& loop(tile::LoopId id) const { return *loops_[static_cast<size_t>(id)]; }
  const std::string& name(tile::LoopId id) const { return names_.loops[static_cast<size_t>(id)]; }
  std::string use(std::string_view name);
  std::string quotient(int64_t a, const std::string& a_text, int64_t b, const std::string& b_text);
  std::string tile_constant(int64_t value);
  std::string extent(int64_t value, Label label);
  std::string tile_count(int64_t count, Label label, int64_t tile, const std::string& tile_text);
  std::string terms(const tile::Affine& affine, std::string_view sign);
  std::string affine(const tile::Affine& affine);
  std::string size(const tile::Size& size, Label label);
  std::string left_of(const tile::Size& size);
  std::string slice(const tile::Access& access, size_t dimension);
  std::vector<std::string> shape_sizes(tile::BufferId buffer);
  std::string row_tiles(const tile::Access& access);
  std::string declare(const tile::Size& size, const tile::Loop& innermost);

  const tile::Program& program_;
  const Description& description_;
  Dimensions dimensions_;
  Names names_;
  std::vector<const tile::Loop*> loops_;     // by LoopId
  std::vector<std::vector<int64_t>> tiles_;  // by BufferId: elements per index of a dimension
  std::vector<const tile::Loop*> around_;    // the loops around
  std::vector<SizeVariable> sizes_;          // in scope
  std::vector<size_t> sizes_before_;         // each of the loops around
  std::set<std::string> used_;
};

}  // namespace neuronmm::nki
