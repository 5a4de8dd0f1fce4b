// The tests in this file run commands under mpirun on the bundled model. The text and figures equal
// those of one process. Other tests check the messages when something is wrong.

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "launched_program.h"
#include "serve/http/http_client.h"

namespace neuronmm::apps {
namespace {

class SeveralProcesses : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    if (const std::string why = why_no_launch(); !why.empty()) GTEST_SKIP() << why;
  }
  static Outcome on(int processes, const std::string& arguments,
                    const std::string& errors_to = "&1") {
    return neuronmm(arguments, processes == 1 ? "" : parallel::mpirun(processes), errors_to);
  }
};

TEST_F(SeveralProcesses, GreedyTextIsTheSame) {
  const std::string arguments = "generate " + kOneLayer +
                                " --prompt 'Once upon a time' --max-new-tokens 40 --temperature 0 "
                                "--threads 1";
  const Outcome one = on(1, arguments, "/dev/null");
  expect(one, 0, {});
  for (const auto& [link, processes] : {std::pair("auto", 2), {"auto", 4}, {"messages", 3}}) {
    const Outcome several = on(processes, arguments + " --link " + link, "/dev/null");
    expect(several, 0, {});
    EXPECT_EQ(several.output, one.output) << processes << " by " << link;
  }
}

// The draft is divided among the processes, too, and its cache is rolled back in all of them.
TEST_F(SeveralProcesses, ADraftLeavesTheTextAsItIs) {
  const std::string arguments = "generate " + kDemo +
                                " --prompt 'Once upon a time' --max-new-tokens 20 --threads 1 "
                                "--temperature 0.8 --seed 3";
  const Outcome plain = on(2, arguments, "/dev/null");
  expect(plain, 0, {});
  const Outcome drafted = on(2, arguments + " --draft " + kOneLayer, "/dev/null");
  expect(drafted, 0, {});
  EXPECT_EQ(drafted.output, plain.output);
}

// Every process copies its part of a block that a request has partly in common with an earlier one.
// With another salt nothing is reused, and the answer must have the same probabilities.
TEST_F(SeveralProcesses, APrefixThatEndsInsideABlockIsReused) {
  LaunchedProgram server(folder_.string(), 2, "", "serve " + kOneLayer + " --port 0 --threads 1");
  ASSERT_TRUE(server.eventually_prints("is ready")) << server.output();
  const auto ask = [&](const std::vector<int>& prompt, const std::string& salt) {
    const nlohmann::json body = {{"prompt", prompt},   {"max_tokens", 9}, {"temperature", 0},
                                 {"ignore_eos", true}, {"logprobs", 3},   {"cache_salt", salt}};
    const auto reply = serve::HttpClient(server.port()).post("/v1/completions", body.dump());
    EXPECT_EQ(reply.status, 200) << reply.body;
    return nlohmann::json::parse(reply.body);
  };
  const auto cached = [](const nlohmann::json& answer) {
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>();
  };
  std::vector<int> prompt(150);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int>(i * 37 % 1000 + 5);
  EXPECT_EQ(cached(ask(prompt, "")), 0);
  for (const size_t common : {149, 140, 129, 100, 17}) {
    prompt.resize(common);
    prompt.insert(prompt.end(), {static_cast<int>(common) + 1000, 7, 8});
    const auto reused = ask(prompt, ""), computed = ask(prompt, std::to_string(common));
    EXPECT_EQ(cached(reused), static_cast<int>(common));
    EXPECT_EQ(cached(computed), 0);
    EXPECT_EQ(reused["choices"], computed["choices"]);
  }
}

// Activations are fp32 here, because with bf16 a sum in another order may round to another value.
TEST_F(SeveralProcesses, PerplexityIsTheSame) {
  const auto perplexity = [&](int processes) {
    const Outcome outcome =
        on(processes,
           "perplexity " + kOneLayer + " " + kOneLayer +
               "/evaluation.txt --limit 3 --threads 1 --activations fp32 --json -",
           "/dev/null");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return nlohmann::json::parse(outcome.output)["perplexity"].get<double>();
  };
  const double one = perplexity(1);
  for (const int processes : {2, 4}) EXPECT_NEAR(perplexity(processes), one, 1e-5 * one);
}

TEST_F(SeveralProcesses, AnErrorIsPrintedOnceAndEndsAllProcesses) {
  const Outcome outcome = on(2, "generate /no/such/folder --prompt x");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  const size_t first = outcome.output.find("/no/such/folder");
  EXPECT_NE(first, std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find("neuronmm generate:", first), std::string::npos) << outcome.output;
}

TEST_F(SeveralProcesses, CommandLinesThatDifferAreRefused) {
  const std::string program = "'" + program_path().string() + "' generate " + kDemo + " --prompt x";
  const Outcome outcome = run_shell(parallel::mpirun(1) + program + " --threads 1 : -n 1 " +
                                    program + " --threads 2 2>&1 </dev/null");
  expect(outcome, 1, {"expected the command line to be the same", "--threads 1", "--threads 2"});
}

TEST_F(SeveralProcesses, ThreadCountsThatDifferAreRefused) {
  const std::string program = "'" + program_path().string() + "' generate " + kDemo + " --prompt x";
  const Outcome outcome = run_shell(parallel::mpirun(1) + "-x OMP_NUM_THREADS=1 " + program +
                                    " : -n 1 -x OMP_NUM_THREADS=3 " + program + " 2>&1 </dev/null");
  expect(outcome, 1, {"the number of threads", "found 1 in process 0 and 3 in process 1"});
}

// The path leads to another folder in each process, because it goes through the working directory.
// The same happens if hosts have different files under one path.
TEST_F(SeveralProcesses, FoldersThatDifferAreRefused) {
  for (const char* const host : {"a", "b"}) {
    const auto folder = folder_ / host / "model";
    std::filesystem::create_directories(folder);
    std::filesystem::copy(kOneLayer, folder, std::filesystem::copy_options::recursive);
  }
  std::ofstream(folder_ / "b" / "model" / "config.json", std::ios::app) << "\n";
  const std::string program =
      "'" + program_path().string() + "' generate /proc/self/cwd/model --prompt x --threads 1 ";
  const Outcome outcome =
      run_shell(parallel::mpirun(1) + "-wdir " + (folder_ / "a").string() + " " + program +
                " : -n 1 -wdir " + (folder_ / "b").string() + " " + program + " 2>&1 </dev/null");
  expect(outcome, 1, {"to be the same in all processes", "config.json "});
}

TEST_F(SeveralProcesses, ACommandForOneProcessIsRefused) {
  expect(on(2, "inspect " + kDemo), 1, {"neuronmm inspect: this command runs as one process"});
}

TEST_F(SeveralProcesses, BindingThreadsIsLeftToTheLauncher) {
  expect(on(2, "generate " + kDemo + " --prompt x --numa"), 1,
         {"--numa: expected one process, found 2", "--map-by numa"});
}

TEST_F(SeveralProcesses, TooManyProcessesAreRefusedWithTheMaximum) {
  expect(on(7, "generate " + kDemo + " --prompt x --threads 1"), 1,
         {"6 attention heads", "at most 6"});
}

TEST_F(SeveralProcesses, InspectShowsThePlan) {
  expect(neuronmm("inspect " + kDemo + " --processes 4"), 0,
         {"2 + 2 + 1 + 1 of 6", "even with 2, 3, 6 processes", "sum y", "bytes per token"});
}

}  // namespace
}  // namespace neuronmm::apps
