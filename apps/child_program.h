#pragma once
// Another program that does a part of a command's work: started, read and waited for.

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace neuronmm::apps {

struct ChildProgram {
  std::string program;  // looked for in PATH unless it has a slash
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment = {};  // beside this process's
  int stream = 1;  // which is read here: 1 standard output, 2 standard error
};

struct ChildEnd {
  bool missing = false;  // there is no such program
  int status = 0;        // as waitpid() tells it
  std::string output;    // all that came by the stream
};

// Until it ends. An interrupt of this process is passed on as SIGTERM. Where standard error is
// read, what the program prints on standard output goes to this process's standard error, as its
// own standard output is for its report.
Result<ChildEnd> run_child(const ChildProgram& child);

}  // namespace neuronmm::apps
