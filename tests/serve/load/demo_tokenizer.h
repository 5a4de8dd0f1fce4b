#pragma once
// The bundled model's.

#include <gtest/gtest.h>

#include "places.h"
#include "text/tokenizer.h"

namespace neuronmm::load {

inline const text::Tokenizer& demo_tokenizer() {
  static const auto tokenizer = text::Tokenizer::load(source_dir() / "models/demo");
  EXPECT_TRUE(tokenizer.ok());
  return *tokenizer;
}

}  // namespace neuronmm::load
