// Options that earlier versions had are refused with what replaces them, and folders that were made
// with them still open.

#include "removed_options.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "run_program.h"

namespace neuronmm::apps {
namespace {

TEST(RemovedOptions, EachIsRefusedWithWhatReplacesIt) {
  for (const RemovedOption& removed : removed_options()) {
    const std::string value(removed.value.empty() ? "x" : removed.value), option(removed.option);
    for (const std::string& given : {option + " " + value, option + "=" + value}) {
      SCOPED_TRACE(given);
      expect(neuronmm(fmt::format("{} {}", removed.command, given)), 2,
             {option.c_str(), "was removed; use", std::string(removed.instead).c_str()});
    }
  }
  EXPECT_GT(removed_options().size(), 5u);
}

TEST(RemovedOptions, NoCommandHasThemInItsHelp) {
  for (const RemovedOption& removed : removed_options()) {
    const std::string help = neuronmm(fmt::format("{} --help-all", removed.command)).output;
    const std::string name(removed.value.empty() ? removed.option : removed.value);
    EXPECT_EQ(help.find(name + " "), std::string::npos) << removed.command << " " << name;
  }
}

TEST(RemovedOptions, ValuesThatAreStillThereAreTaken) {
  EXPECT_FALSE(removed_option_message("compress", {"--method", "whitened"}));
  EXPECT_FALSE(removed_option_message("compress", {"--alignment"}));
  EXPECT_FALSE(removed_option_message("compress", {"--method"}));
  EXPECT_FALSE(removed_option_message("generate", {"--align", "floor"}));
  EXPECT_TRUE(removed_option_message("compress", {"--ratio", "0.2", "--method=error-aware"}));
}

class OldRecord : public ProgramTest {};

TEST_F(OldRecord, IsReadAndShownWithTheOptionsOfItsTime) {
  const std::string out = path("old");
  expect(neuronmm("compress " + kOneLayer + " -o " + out + " --ratio 0.5 --method svd"), 0, {});
  auto config = nlohmann::ordered_json::parse(read(out + "/config.json"));
  config["neuronmm_compression"].update(
      {{"method", "error-aware"}, {"align", "ceil"}, {"allocate", "sensitivity"}});
  write("old/config.json", config.dump());
  expect(neuronmm("inspect " + out), 0,
         {"method error-aware", "align ceil", "allocate sensitivity"});
  expect(neuronmm("generate " + out + " --prompt Once --max-new-tokens 2"), 0, {});
  expect(neuronmm("quantize " + out + " -o " + path("rounded")), 0, {"written to"});
  expect(neuronmm("inspect " + path("rounded")), 0, {"method error-aware", "align ceil"});
}

}  // namespace
}  // namespace neuronmm::apps
