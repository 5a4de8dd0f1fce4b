#pragma once
// Sizes in bytes as people write them on a command line: "80M", "80MB", "1.5GiB". Every option that
// takes an amount of memory or of bytes reads it here, so that a unit means the same in all of
// them.

#include <cstdint>
#include <string_view>

#include <CLI/CLI.hpp>

#include "base/result.h"

namespace neuronmm::apps {

// Returns the bytes that `text` means, rounded to a whole number of at least 1. A unit may be K, M,
// G or T, in either case, with or without B: these are powers of 1000. KiB, MiB, GiB and TiB (also
// Ki, Mi, ...) are powers of 1024. No unit, and B, mean bytes. One space before the unit is
// allowed. Fails on anything else, on sizes below one byte and on sizes of 2^60 bytes and more.
Result<int64_t> parse_byte_size(std::string_view text);

// Returns a transformation for options whose variable is a whole number of bytes.
CLI::Validator byte_size();

}  // namespace neuronmm::apps
