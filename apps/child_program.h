#pragma once
// Runs another program that does a part of a command's work, reads what it prints, and waits for
// its end. The kernel commands start Python so. A program that is missing, cannot be run or fails
// is reported to the caller, never thrown.

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace neuronmm::apps {

// A program to start.
struct ChildProgram {
  std::string program;  // its absolute path
  std::vector<std::string> arguments;
  // Variables that are added to the environment of this process or replace variables there. The
  // child's PATH has only the absolute folders of this process's (search_path.h).
  std::vector<std::pair<std::string, std::string>> environment = {};
  int stream = 1;  // the stream that this process reads: 1 standard output, 2 standard error
};

// How a child program ended.
struct ChildResult {
  bool missing = false;  // true if the program does not exist
  int status = 0;        // the status that waitpid() reports
  // The text that the program wrote to the stream, or the last mebibyte of a long standard error.
  std::string output;
};

// Starts the program and returns when it has ended. If this process is interrupted, the child gets
// SIGTERM. If the child's standard error is read, its standard output goes to the standard error of
// this process, because the standard output of this process is reserved for the report. Returns an
// Error if no pipe can be made or if the program exists but cannot be run.
Result<ChildResult> run_child(const ChildProgram& child);

}  // namespace neuronmm::apps
