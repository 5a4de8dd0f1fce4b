// Tests of what fit makes of settings that a caller left out.

#include <gtest/gtest.h>

#include "fit/fit.h"

namespace neuronmm::fit {
namespace {

FitGiven given_bytes() {
  FitGiven given;
  given.model = "model";
  given.out = "out";
  given.budget.bytes = 1000;
  given.calibration = {"texts/stories.txt"};
  return given;
}

std::string refusal(const FitGiven& given, OptionNames names) {
  const auto settings = fit_settings(given, names);
  return settings.ok() ? "" : settings.error().message;
}

TEST(FitSettings, DefaultsFollowFromWhatIsGiven) {
  auto settings = fit_settings(given_bytes(), OptionNames::kFlags);
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->sensitivities, "out.fit");
  EXPECT_EQ(settings->calibration.max_tokens, 10240);
  ASSERT_EQ(settings->calibration.texts.size(), 1u);
  EXPECT_EQ(settings->calibration.texts[0].name, "texts/stories.txt");
  EXPECT_EQ(settings->block, 32);

  FitGiven given = given_bytes();
  given.simulated = true;
  given.sensitivities = "known";
  given.calibration_tokens = 800;
  settings = fit_settings(given, OptionNames::kFlags);
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->sensitivities, "known");
  EXPECT_EQ(settings->calibration.max_tokens, 800);
  EXPECT_EQ(settings->block, 128);
}

TEST(FitSettings, RefusalsNameTheOptionsOfTheCaller) {
  FitGiven given = given_bytes();
  given.budget = {};
  EXPECT_EQ(refusal(given, OptionNames::kFlags),
            "--bytes, --decode, --prefill or --max-kl: a budget is needed");
  EXPECT_EQ(refusal(given, OptionNames::kKeywords),
            "bytes, decode, prefill or max_kl: a budget is needed");
  given = given_bytes();
  given.out.clear();
  EXPECT_EQ(refusal(given, OptionNames::kFlags), "--output is needed (only --plan needs none)");
  given.plan_only = true;
  EXPECT_EQ(refusal(given, OptionNames::kFlags),
            "--sensitivities is needed by --plan without --output");
  given.sensitivities = "known";
  EXPECT_EQ(refusal(given, OptionNames::kFlags), "");
}

}  // namespace
}  // namespace neuronmm::fit
