#pragma once
// A program as readable text: its buffers with memory, bytes and copies, then the loop nest with
// every instruction's slices.
//
//   nc_matmul(dst=psum[0 : 128, 0 : 512], stationary=u_block[0 : 128, kt.5, 128 rt.4 : 128], ...)

#include <string>

#include "trainium/tile/program.h"

namespace neuronmm::tile {

std::string print(const Program& program);
std::string print(const Program& program, const Access& access);  // "x[128 m : 128, 0 : 64]"

}  // namespace neuronmm::tile
