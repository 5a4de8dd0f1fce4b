// The tests in this file pin which sizes the options for memory accept and what the units mean.

#include "byte_size.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace neuronmm::apps {
namespace {

TEST(ByteSize, UnitsArePowersOf1000OrWithAnIPowersOf1024) {
  const std::pair<const char*, int64_t> cases[] = {
      {"1", 1},
      {"512B", 512},
      {"80K", 80'000},
      {"80M", 80'000'000},
      {"80MB", 80'000'000},
      {"80mb", 80'000'000},
      {"80MiB", int64_t{80} << 20},
      {"80Mi", int64_t{80} << 20},
      {"1.5G", 1'500'000'000},
      {"1.5GiB", int64_t{3} << 29},
      {"2TB", 2'000'000'000'000},
      {"640KiB", 655'360},
      {"420M", 420'000'000},
      {"1e6", 1'000'000},
      {".5k", 500},
  };
  for (const auto& [text, bytes] : cases) {
    const auto parsed = parse_byte_size(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.error().message;
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(ByteSize, OtherTextsAreRefusedWithExamples) {
  for (const char* text : {"", "M", "80XB", "80MX", "80MBB", "80Bi", "80 M", "80iB", "-5", "0",
                           "0.4", "nan", "inf", "1e99", "2e18", "80M ", "--plan", "1,5G"}) {
    const auto parsed = parse_byte_size(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().message,
              "expected a size in bytes, as 4G, 80M, 80MB, 80MiB or 512K, found \"" +
                  std::string(text) + "\"");
  }
}

TEST(ByteSize, MessagesPrintTheUnitsThatOptionsTake) {
  EXPECT_EQ(byte_size_text(0), "0 B");
  EXPECT_EQ(byte_size_text(999), "999 B");
  EXPECT_EQ(byte_size_text(1000), "1.0 kB");
  EXPECT_EQ(byte_size_text(655'360), "655.4 kB");
  EXPECT_EQ(byte_size_text(262'144), "262.1 kB");
  EXPECT_EQ(byte_size_text(240'000'000), "240.0 MB");
  EXPECT_EQ(byte_size_text(240'050'000), "240.1 MB");
  EXPECT_EQ(byte_size_text(1'700'000'000), "1700.0 MB");
}

// A user who repeats a bound from a message is within it.
TEST(ByteSize, ABoundIsRoundedToTheSideThatIsAllowed) {
  for (const int64_t bytes : {1, 999, 1000, 262'144, 999'999, 1'000'001, 123'456'789}) {
    for (const auto rounding : {SizeRounding::kUp, SizeRounding::kDown}) {
      std::string text = byte_size_text(bytes, rounding);
      std::erase(text, ' ');
      const auto parsed = parse_byte_size(text);
      ASSERT_TRUE(parsed.ok()) << text;
      const int64_t outwards = rounding == SizeRounding::kUp ? *parsed - bytes : bytes - *parsed;
      EXPECT_GE(outwards, 0) << text << " for " << bytes;
    }
  }
  EXPECT_EQ(byte_size_text(262'144, SizeRounding::kUp), "262.2 kB");
  EXPECT_EQ(byte_size_text(262'199, SizeRounding::kDown), "262.1 kB");
}

TEST(ByteSize, TheTransformationWritesBytes) {
  std::string text = "1.5K";
  const CLI::Validator to_bytes = byte_size();
  EXPECT_EQ(to_bytes(text), "");
  EXPECT_EQ(text, "1500");
  text = "x";
  EXPECT_NE(to_bytes(text), "");
}

}  // namespace
}  // namespace neuronmm::apps
