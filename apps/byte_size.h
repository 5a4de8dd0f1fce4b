#pragma once
// Sizes in bytes as people write them on a command line: "80M", "80MB", "1.5GiB". Every option that
// takes an amount of memory or of bytes reads it here, so that a unit means the same in all of
// them. Messages about these options print sizes in the same units.

#include <cstdint>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "base/result.h"

namespace neuronmm::apps {

// Returns the bytes that `text` means, rounded to a whole number of at least 1. A unit may be K, M,
// G or T, in either case, with or without B: these are powers of 1000. KiB, MiB, GiB and TiB (also
// Ki, Mi, ...) are powers of 1024. No unit, and B, mean bytes. Fails on anything else, also on a
// space before the unit, on sizes below one byte and on sizes of 2^60 bytes and more.
Result<int64_t> parse_byte_size(std::string_view text);

// How a size is rounded to a tenth of its unit. A size that is rounded up suffices where `bytes` is
// the least that suffices, and one that is rounded down is allowed where `bytes` is the most.
enum class SizeRounding { kNearest, kUp, kDown };

// Returns a size for a message: "240.0 MB" from a million bytes on, "655.4 kB" from a thousand on,
// else "10 B".
std::string byte_size_text(int64_t bytes, SizeRounding rounding = SizeRounding::kNearest);

// Returns a transformation for options whose variable is a whole number of bytes.
CLI::Validator byte_size();

}  // namespace neuronmm::apps
