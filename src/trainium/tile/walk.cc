#include "trainium/tile/walk.h"

namespace neuronmm::tile {

// The nest becomes a list of steps. The beginning of a loop knows the index of its end, and the end
// knows the index of its beginning.
Walker::Walker(const Program& program)
    : loop_values_(static_cast<size_t>(program.num_loops)),
      trips_(static_cast<size_t>(program.num_loops)) {
  steps_.emplace_back();
  flatten(program.body);
  steps_.push_back({.ends_program = true});
}

void Walker::flatten(const std::vector<Node>& body) {
  for (const Node& node : body) {
    if (const auto* loop = std::get_if<Loop>(&node)) {
      const size_t begin = steps_.size();
      steps_.push_back({.loop = loop});
      flatten(loop->body);
      steps_[begin].other_end = steps_.size();
      steps_.push_back({.loop = loop, .other_end = begin});
    } else {
      steps_.push_back({.instruction = std::get_if<Instruction>(&node),
                        .allocate = std::get_if<Allocate>(&node),
                        .node = num_nodes_++});
    }
  }
}

// Evaluates the trip count when the loop is entered, because it may depend on the loops around it.
// A loop without iterations is skipped.
void Walker::enter(const Step& begin) {
  const auto id = static_cast<size_t>(begin.loop->id);
  loop_values_[id] = 0;
  trips_[id] = begin.loop->trip_count(loop_values_);
  if (trips_[id] <= 0) at_ = begin.other_end;
}

// Goes back to the beginning of the loop, or leaves it. The variable of a loop that is left returns
// to 0, because expressions after the loop must not see its last value.
void Walker::repeat(const Step& end) {
  const auto id = static_cast<size_t>(end.loop->id);
  if (++loop_values_[id] < trips_[id]) {
    at_ = end.other_end;
  } else {
    loop_values_[id] = 0;
  }
}

// Processes the beginnings and ends of loops until the step is a node.
bool Walker::next() {
  while (!steps_[at_].ends_program) {
    const Step& step = steps_[++at_];
    if (step.node >= 0) return true;
    if (!step.loop) continue;
    if (step.other_end > at_) {
      enter(step);
    } else {
      repeat(step);
    }
  }
  return false;
}

namespace {

// The body of a loop counts (trips - 1) times at its first iteration and once at its last
// iteration, which may be ragged. If there is one trip, only the last iteration counts.
void visit_distinct(const std::vector<Node>& body, std::vector<int64_t>& loop_values, int64_t times,
                    const VisitDistinct& visit) {
  for (const Node& node : body) {
    if (const auto* instruction = std::get_if<Instruction>(&node)) {
      visit(*instruction, loop_values, times);
    }
    const auto* loop = std::get_if<Loop>(&node);
    if (!loop) continue;
    const auto id = static_cast<size_t>(loop->id);
    const int64_t trips = loop->trip_count(loop_values);
    if (trips > 1) visit_distinct(loop->body, loop_values, times * (trips - 1), visit);
    if (trips > 0) {
      loop_values[id] = trips - 1;
      visit_distinct(loop->body, loop_values, times, visit);
    }
    loop_values[id] = 0;
  }
}

}  // namespace

void for_each_distinct(const Program& program, const VisitDistinct& visit) {
  std::vector<int64_t> loop_values(static_cast<size_t>(program.num_loops));
  visit_distinct(program.body, loop_values, 1, visit);
}

int64_t Region::elements() const {
  int64_t count = 1;
  for (size_t d = 0; d < dimensions; ++d) count *= size[d];
  return count;
}

int64_t Region::free_elements() const {
  int64_t count = 1;
  for (size_t d = 1; d < dimensions; ++d) count *= size[d];
  return count;
}

Region evaluate(const Access& access, std::span<const int64_t> loop_values) {
  Region region;
  region.dimensions = access.slices.size();
  for (size_t d = 0; d < region.dimensions; ++d) {
    const Slice& slice = access.slices[d];
    region.start[d] = slice.start.eval(loop_values);
    region.size[d] = slice.index ? 1 : slice.size.eval(loop_values);
  }
  return region;
}

}  // namespace neuronmm::tile
