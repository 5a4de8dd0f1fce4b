#pragma once
// Runs the program with the fault injector in a folder tree of its own:
//
//   w/in    what commands read
//   w/run   the current folder, where commands write
//   w/tmp   $TMPDIR
//   w/home  $HOME
//
// Calls on everything below w/ are counted and can be made to fail (fault_control.h).

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "command_lines.h"
#include "fault_control.h"
#include "io/io_test.h"

namespace neuronmm::faults {

// Contents of files by path relative to the root of the tree. Folders end in "/".
using Tree = std::map<std::string, std::string>;
Tree tree_of(const std::filesystem::path& root);
// Returns the part of the tree that is the file or folder `name`.
Tree part_of(const Tree& tree, const std::string& name);
// Returns the differences in words, or an empty text.
std::string difference(const Tree& expected, const Tree& found);

std::vector<std::string> words_of(const std::string& text);

// A call to disturb. The call 0 is none.
struct Fault {
  long call = 0;
  int code = kKill;  // as in FaultControl
};

struct Outcome {
  int signal = 0;
  int exit_code = 0;
  std::string output;
  long calls = 0;
  std::string failed;  // the name of the call that failed
};

class WatchedProgram {
 public:
  WatchedProgram();

  std::filesystem::path in() const { return root_ / "w/in"; }
  std::filesystem::path working_folder() const { return root_ / "w/run"; }
  std::filesystem::path temporary_folder() const { return root_ / "w/tmp"; }
  // Empties the working folder and puts files of somebody else there, whose names resemble those of
  // the program's files. With `output`, also copies that folder of in/ to "out".
  void prepare(const std::string& output = {}) const;

  // Runs the program in the working folder. `input` is its standard input.
  Outcome run(const std::string& arguments, const Fault& fault = {}, const std::string& input = {},
              Needs needs = Needs::kNothing) const;
  // Returns the kind of a call of the last run.
  CallKind kind(long call) const { return control_->kinds[call - 1]; }
  // Lets opening with O_TMPFILE fail, as on file systems that cannot do it.
  void set_unnamed_files(bool possible) const { control_->no_unnamed_files = !possible; }
  bool asked_for_unnamed_files() const { return control_->asked_for_unnamed_files; }

 private:
  std::vector<std::string> environment() const;
  std::vector<std::string> command_line(const std::string& arguments, Needs needs) const;

  const io::TemporaryFolder root_;
  std::shared_ptr<FaultControl> control_;
};

}  // namespace neuronmm::faults
