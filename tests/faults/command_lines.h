#pragma once
// The command lines that fault_sweep_test.cc disturbs. writing_options_test.cc shows that every
// option that writes a file or folder stands in one of them.

#include <span>

namespace neuronmm::faults {

// The part of the system that a command line needs. The line is skipped where the part is missing.
enum class Needs { kNothing, kPython, kMpirun };

struct Command {
  const char* name;
  const char* arguments;  // relative to the folder run/; in/ has the inputs (fault_sweep_test.cc)
  // The files and folders that the command makes in run/, separated by spaces. Each appears whole
  // or not at all. The first one is what a rerun may refuse to replace.
  const char* outputs;
  // The measurements that may stay in run/ after an error, besides "OUTPUT.partial", because a
  // later run uses them.
  const char* keeps = "";
  bool replaces = false;     // whether run/out is a model folder that the command may replace
  bool refuses = false;      // whether the command refuses to replace a file (folders are never)
  bool late_report = false;  // whether a run killed after its output must be forced for the report
  bool same_bytes = true;    // false if the outputs hold times
  const char* input = "";    // what the command reads from standard input
  Needs needs = Needs::kNothing;
};

std::span<const Command> commands();

}  // namespace neuronmm::faults
