#include "base/fnv1a.h"

#include <gtest/gtest.h>

namespace neuronmm {
namespace {

// Files of older versions hold such hashes, so they must never change.
TEST(Fnv1a, HasTheKnownValues) {
  EXPECT_EQ(fnv1a(""), 0xCBF29CE484222325u);
  EXPECT_EQ(fnv1a("a"), 0xAF63DC4C8601EC8Cu);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171F73967E8u);
  EXPECT_EQ(fnv1a("bar", fnv1a("foo")), fnv1a("foobar"));
  EXPECT_EQ(fnv1a('r', fnv1a("fooba")), fnv1a("foobar"));
  EXPECT_EQ(fnv1a("\xFF"), fnv1a('\xFF', kFnvOffsetBasis));
}

}  // namespace
}  // namespace neuronmm
