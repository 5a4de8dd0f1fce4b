// This file tests that the tasks that compress and quantize declare are those that they run, so
// that one estimate can be shown for the whole command.

#include "compress/expected_tasks.h"

#include <array>
#include <cstdio>

#include "compress/compress_test.h"

namespace neuronmm::compress {
namespace {

class ExpectedTasks : public CompressTest {
 protected:
  // Returns the labels of the tasks that a compression reports, in their order.
  std::vector<std::string> tasks_of(const CompressRequest& request) {
    std::FILE* const file = std::tmpfile();
    {
      Progress progress(file);
      const auto summary = compress(request, backend_, progress);
      if (!summary.ok()) throw std::runtime_error(summary.error().message);
    }
    std::rewind(file);
    std::vector<std::string> labels;
    std::array<char, 512> line;
    while (std::fgets(line.data(), line.size(), file) != nullptr) {
      const std::string text = line.data();
      // A finished task writes "label 3/3, 00:00 left in all". A slow one also writes "label 2/3".
      const size_t slash = text.find('/'), comma = text.find(',');
      if (text.find(" left in all") == std::string::npos || slash > comma) continue;
      const size_t space = text.rfind(' ', slash);
      const std::string done = text.substr(space + 1, slash - space - 1);
      if (done == text.substr(slash + 1, comma - slash - 1))
        labels.push_back(text.substr(0, space));
    }
    std::fclose(file);
    return labels;
  }
  // Expects that the tasks that ran are among the declared ones, in the same order.
  void expect_declared(const CompressRequest& request) {
    const std::vector<ExpectedTask> declared = expected_tasks(request, /*measures=*/false);
    size_t next = 0;
    const auto ran = tasks_of(request);
    EXPECT_GE(ran.size(), 3u);
    for (const std::string& label : ran) {
      while (next < declared.size() && declared[next].label != label) ++next;
      EXPECT_LT(next++, declared.size()) << label << " was not declared";
    }
  }
};

TEST_F(ExpectedTasks, AMatrixWiseCompressionRunsWhatItDeclares) { expect_declared(request("out")); }

TEST_F(ExpectedTasks, NarrowedMlpsRunWhatTheyDeclare) {
  for (const Form form : {Form::kNeurons, Form::kPivoted, Form::kMixed, Form::kAuto}) {
    CompressRequest shaped = request(std::string(form_name(form)));
    shaped.form = form;
    shaped.allocate = Allocate::kMeasured;
    shaped.rule = {0.4, 4};
    shaped.calibration = {{{"text.txt", random_text(7000, 5)}}, 750};
    expect_declared(shaped);
  }
}

}  // namespace
}  // namespace neuronmm::compress
