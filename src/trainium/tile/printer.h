#pragma once
// This file prints a program as readable text: first its buffers with memory, bytes and copies,
// then the loop nest with the slices of every instruction. Commands show the text, and the tuner's
// fingerprint of a program is made from it. The program must have passed check_structure
// (tile/checker.h).
//
//   nc_matmul(dst=psum[0 : 128, 0 : 512], stationary=u_block[0 : 128, kt.5, 128 rt.4 : 128], ...)

#include <string>

#include "trainium/tile/program.h"

namespace neuronmm::tile {

std::string print(const Program& program);
// Prints one access: "x[128 m : 128, 0 : 64]".
std::string print(const Program& program, const Access& access);

}  // namespace neuronmm::tile
