// Tests Unicode's normalization forms, also against utf8proc on random text.

#include "text/unicode/unicode_form.h"

#include <chrono>
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>
#include <utf8proc.h>

#include "small_tokenizer.h"

namespace neuronmm::text {
namespace {

constexpr UnicodeForm kForms[] = {UnicodeForm::kNfc, UnicodeForm::kNfd, UnicodeForm::kNfkc,
                                  UnicodeForm::kNfkd};

std::string to_form(UnicodeForm form, std::string_view text) {
  std::string storage;
  return std::string(to_unicode_form(form, text, storage));
}
std::string nfc(std::string_view text) { return to_form(UnicodeForm::kNfc, text); }

// Normalizes the whole text at once with utf8proc's own function.
std::string reference(UnicodeForm form, const std::string& text) {
  constexpr int kOptions[] = {UTF8PROC_COMPOSE, UTF8PROC_DECOMPOSE,
                              UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                              UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
  utf8proc_uint8_t* out = nullptr;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | kOptions[static_cast<int>(form)]);
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 std::ssize(text), &out, options);
  const std::string result(reinterpret_cast<const char*>(out), static_cast<size_t>(size));
  std::free(out);
  return result;
}

TEST(UnicodeForm, NfcComposesCharacters) {
  EXPECT_EQ(nfc("cafe\xCC\x81!"), "caf\xC3\xA9!");
  EXPECT_EQ(nfc("\xE2\x84\xAB"), "\xC3\x85");                              // The Angstrom sign.
  EXPECT_EQ(nfc("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB"), "\xED\x95\x9C");  // A Hangul syllable.
  EXPECT_EQ(nfc("q\xCC\x87\xCC\xA3"), "q\xCC\xA3\xCC\x87");  // Marks are put in order.
  EXPECT_EQ(nfc(""), "");
}

TEST(UnicodeForm, OtherFormsDecomposeCharacters) {
  EXPECT_EQ(to_form(UnicodeForm::kNfd, "x\xC3\xA9\xC2\xB2"), "xe\xCC\x81\xC2\xB2");
  EXPECT_EQ(to_form(UnicodeForm::kNfkd, "x\xC3\xA9\xC2\xB2"),
            "xe\xCC\x81"
            "2");
  EXPECT_EQ(to_form(UnicodeForm::kNfkc, "\xEF\xAC\x81 e\xCC\x81\xC2\xB2"),
            "fi \xC3\xA9"
            "2");
  // U+FDFA has the longest decomposition, of 18 characters.
  EXPECT_EQ(to_form(UnicodeForm::kNfkd, "\xEF\xB7\xBA").size(), 33u);
}

TEST(UnicodeForm, NfcReturnsTextBelowU0300Itself) {
  const std::string text = "na\xC3\xAFve \xC5\x93uvre";
  std::string storage;
  EXPECT_EQ(to_unicode_form(UnicodeForm::kNfc, text, storage).data(), text.data());
}

TEST(UnicodeForm, EqualsUtf8procOnRandomText) {
  // Letters that combine, marks of several classes, parts of Hangul syllables, and all characters.
  const char32_t kinds[][2] = {{'a', 'z'},       {0xC0, 0x17F},     {0x300, 0x345},
                               {0x1100, 0x11FF}, {0x5B0, 0x5C7},    {0x915, 0x94D},
                               {0x1E00, 0x1FFF}, {0xAC00, 0xAC40},  {0x2F800, 0x2FA1D},
                               {0x20, 0xD7FF},   {0xE000, 0x10FFFF}};
  for (uint32_t seed = 1; seed <= 3000; ++seed) {
    std::mt19937 random(seed);
    std::string text;
    for (uint32_t n = below(random, 30); n > 0; --n) {
      const auto& [first, last] = kinds[below(random, std::size(kinds))];
      text += utf8_of(first + below(random, last - first + 1));
    }
    for (const UnicodeForm form : kForms)
      ASSERT_EQ(to_form(form, text), reference(form, text)) << "seed " << seed;
  }
}

// All marks are in the wrong order. Sorting them by insertion would take minutes.
TEST(UnicodeForm, ManyMarksTakeNoQuadraticTime) {
  std::string text = "a";
  for (int i = 0; i < 200'000; ++i) text += i % 2 == 0 ? "\xCC\x81" : "\xCC\xA3";
  const auto start = std::chrono::steady_clock::now();
  const std::string composed = nfc(text);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  // The letter "a" with the first dot below is U+1EA1. The other dots follow, and then the accents.
  EXPECT_TRUE(composed.starts_with("\xE1\xBA\xA1\xCC\xA3"));
  EXPECT_TRUE(composed.ends_with("\xCC\x81"));
  EXPECT_LT(took.count(), 10.0);
}

}  // namespace
}  // namespace neuronmm::text
