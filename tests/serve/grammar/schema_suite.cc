// This program runs files of the JSON Schema Test Suite, or of MaskBench
// (github.com/guidance-ai/jsonschemabench). Every schema that compiles must accept exactly the
// instances that the suite calls valid. The program prints the instances that disagree, the reasons
// for which schemas are refused, and the counts. It exits with 1 if any instance disagrees.
//   schema_suite DRAFT FILE...
//   schema_suite --costs FILE...
// DRAFT becomes the $schema of schemas that have none, unless it is "". With --costs, the schemas
// are only compiled, as the server does it. The program prints how much of their budget they take.

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "any_property_order.h"
#include "serve/grammar/automaton.h"
#include "serve/schema/schema_compiler.h"

namespace {

using namespace neuronmm::grammar;

struct Counts {
  int schemas = 0, refused = 0, instances = 0, wrong = 0, wider = 0, undecided = 0;
  std::map<std::string, int> reasons;
};

void run_group(const std::string& file, const std::string& draft, Json group, Counts& counts) {
  ++counts.schemas;
  if (group["schema"].is_object() && !group["schema"].contains("$schema") && !draft.empty())
    group["schema"]["$schema"] = draft;
  const std::string name = file + ": " + group["description"].get<std::string>();
  const auto compiled = compile_schema(group["schema"], "schema");
  bool possible = true;
  if (!compiled.ok()) {
    const std::string& message = compiled.error().message;
    possible = !message.starts_with("no document satisfies");
    if (possible) {
      ++counts.refused;
      ++counts.reasons[message.substr(0, 110)];
      return;
    }
  }
  std::optional<Automaton> automaton;
  if (possible) automaton.emplace(compiled->grammar, ByteSet().set());
  for (const Json& test : group["tests"]) {
    ++counts.instances;
    bool accepted = false, gave_up = false;
    if (possible) {
      AnyPropertyOrder writing(*automaton, group["schema"]);
      accepted = writing.accepts(test["data"]);
      gave_up = !accepted && writing.gave_up();
    }
    if (accepted == test["valid"].get<bool>()) continue;
    if (gave_up) {
      ++counts.undecided;
      continue;
    }
    if (accepted && !compiled->notes.empty()) {
      ++counts.wider;
      continue;
    }
    ++counts.wrong;
    std::printf("WRONG %s: %s: %s is %s\n  %s\n", name.c_str(),
                test["description"].get<std::string>().c_str(), test["data"].dump().c_str(),
                accepted ? "accepted" : "refused", group["schema"].dump().c_str());
  }
}

// The steps and bytes that the accepted schemas take, and the number of refused ones.
struct Costs {
  std::vector<int64_t> steps, bytes;
  int refused = 0, exceeded = 0;
};

void add_cost(const Json& group, Costs& costs) {
  Budget budget;
  const auto compiled =
      compile_schema(group["schema"], "schema", {.closed_objects = true, .budget = &budget});
  costs.exceeded += budget.exceeded() ? 1 : 0;
  if (!compiled.ok() && !compiled.error().message.starts_with("no document satisfies"))
    ++costs.refused;
  if (!compiled.ok()) return;
  costs.steps.push_back(budget.steps());
  costs.bytes.push_back(budget.most_bytes());
}

int print_costs(int argc, char** argv) {
  Costs costs;
  for (int i = 2; i < argc; ++i) {
    std::ifstream file(argv[i]);
    add_cost(Json::parse(file), costs);
  }
  std::printf("%d schemas, %d of them refused, %d beyond their budget\n", argc - 2, costs.refused,
              costs.exceeded);
  for (auto* values : {&costs.steps, &costs.bytes}) {
    std::ranges::sort(*values);
    const auto at = [&](double share) {
      return (*values)[static_cast<size_t>(share * static_cast<double>(values->size() - 1))];
    };
    std::printf("%s: median %lld, 99 %% %lld, 99.5 %% %lld, 99.9 %% %lld, largest %lld\n",
                values == &costs.steps ? "steps" : "bytes", static_cast<long long>(at(.5)),
                static_cast<long long>(at(.99)), static_cast<long long>(at(.995)),
                static_cast<long long>(at(.999)), static_cast<long long>(at(1)));
  }
  const auto quick = std::ranges::upper_bound(costs.steps, 2'000'000) - costs.steps.begin();
  std::printf("within 2 million steps: %lld\n", static_cast<long long>(quick));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::string(argv[1]) == "--costs") return print_costs(argc, argv);
  Counts counts;
  for (int i = 2; i < argc; ++i) {
    std::ifstream file(argv[i]);
    std::ostringstream text;
    text << file.rdbuf();
    const Json groups = Json::parse(text.str(), nullptr, false);
    if (groups.is_discarded()) {
      std::fprintf(stderr, "%s: not JSON\n", argv[i]);
      return 2;
    }
    if (groups.is_object()) {
      run_group(argv[i], argv[1], groups, counts);
    } else {
      for (const Json& group : groups) run_group(argv[i], argv[1], group, counts);
    }
  }
  for (const auto& [reason, count] : counts.reasons)
    std::printf("refused %d: %s\n", count, reason.c_str());
  std::printf(
      "%d schemas, %d of them refused; %d instances, %d wrong, %d accepted as notes say, "
      "%d in too many orders to try\n",
      counts.schemas, counts.refused, counts.instances, counts.wrong, counts.wider,
      counts.undecided);
  return counts.wrong == 0 ? 0 : 1;
}
