#pragma once
// This file writes the numbers of a program as Python expressions over the names of dimensions,
// steps and loops: `nl.ds(m * BM, m_size)`, `K // BK`, `(P, BK // P, BM)`. The emitter uses it for
// all sizes and positions. A name is used only if the analysis of dimensions.h says that it is
// meant; an equal value is not enough. A number without a name stays a number.

#include <set>
#include <string>
#include <vector>

#include "trainium/nki/dimensions.h"
#include "trainium/nki/emitter.h"
#include "trainium/nki/names.h"
#include "trainium/tile/program.h"

namespace neuronmm::nki {

inline constexpr int64_t kP = 128;  // P in the source: the number of partitions.
inline constexpr int64_t kF = 512;  // F in the source: the columns of a moving tile.

// Writes expressions for the current position in the program, which enter() and leave() move.
class Expressions {
 public:
  Expressions(const tile::Program& program, const Description& description);

  const Names& names() const { return names_; }
  // The names of constants and helpers that any expression so far refers to.
  const std::set<std::string>& used() const { return used_; }

  // Calls between enter and leave write expressions inside the loop. enter returns the assignments
  // that the loop's body begins with: the sizes of its ragged tiles.
  std::vector<std::string> enter(const tile::Loop& loop);
  void leave();

  // The trip count of a loop that is about to be entered.
  std::string trips(const tile::Loop& loop);
  // Returns the statement that loads the index of a load into a register, or "" if a register that
  // is in scope holds it. Must be called before access() writes an access with this index.
  std::string load_register(const tile::Access& index);
  std::string access(const tile::Access& access);  // For example "x[nl.ds(m * BM, BM), 0:k_size]".
  std::string shape(tile::BufferId buffer);        // For example "(P, BK // P, BM)".
  std::string view(tile::BufferId buffer);         // For example "x.reshape((P, K // P, N))".
  // The shape of what an access covers: "(P, m_size)".
  std::string access_shape(const tile::Access& access);
  std::string accumulate_flag(const std::vector<tile::LoopId>& loops);  // For example "(kt > 0)".
  std::string step(const tile::Loop& loop);  // For example "BM", "P" or "384".

 private:
  using Label = std::optional<size_t>;  // An index into Description::dimensions.
  struct SizeVariable {
    tile::Size size;
    std::string name;
  };

  struct RegisterVariable {
    std::string index;  // The element that it holds, as text.
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
  std::string remaining_size(const tile::Size& size);
  std::string slice(const tile::Access& access, size_t dimension);
  std::string slices(const tile::Access& access, size_t first);
  const RegisterVariable* find_register(const std::string& index) const;
  std::vector<std::string> shape_sizes(tile::BufferId buffer);
  std::string row_tiles(const tile::Access& access);
  std::string matrix_row_tiles(tile::BufferId buffer);
  std::string declare(const tile::Size& size, const tile::Loop& innermost);

  const tile::Program& program_;
  const Description& description_;
  Dimensions dimensions_;
  Names names_;
  std::vector<const tile::Loop*> loops_;  // By LoopId.
  // The elements per index of each dimension, by BufferId.
  std::vector<std::vector<int64_t>> tiles_;
  std::vector<const tile::Loop*> enclosing_;  // The loops around the current position.
  std::vector<SizeVariable> sizes_;           // The size variables in scope.
  std::vector<size_t> sizes_before_;  // The number of size variables before each loop around.
  std::vector<RegisterVariable> registers_;  // The registers in scope.
  std::vector<size_t> registers_before_;     // Their number before each loop around.
  std::set<std::string> used_;
};

}  // namespace neuronmm::nki
