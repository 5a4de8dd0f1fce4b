// Tests `neuronmm nki --measured`: the measured time of each instruction class next to the
// predicted one. The profiles are made by the published schema (version 7.4.0), because none of a
// real device was at hand.

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "run_program.h"

namespace neuronmm::apps {
namespace {

using ProfileJson = nlohmann::ordered_json;

class MeasuredCommand : public ProgramTest {
 protected:
  // Returns a row of the table Instruction with all fields that the schema requires.
  static ProfileJson instruction(const std::string& engine, const std::string& opcode,
                                 int64_t begin, int64_t end) {
    return {{"start_ts", begin}, {"end_ts", end},    {"duration_ns", end - begin},
            {"engine", engine},  {"opcode", opcode}, {"operands", ""},
            {"id", begin},       {"pc", 0},          {"bir_id", "sg0000:1"}};
  }
  static ProfileJson transfer(int64_t begin, int64_t end) {
    return {{"start_ts", begin}, {"end_ts", end}, {"duration_ns", end - begin}, {"id", begin}};
  }
  static ProfileJson tables() {
    return {
        {"Metadata", ProfileJson::array({{{"profile_schema_version", "7.4.0"}}})},
        {"Instruction", ProfileJson::array({instruction("tensor", "LDWEIGHTS", 1000, 1100),
                                            instruction("tensor", "MATMUL", 1100, 1400),
                                            instruction("tensor", "MATMUL", 1500, 1900),
                                            instruction("vector", "TENSOR_COPY", 2000, 2300),
                                            instruction("scalar", "ACTIVATE", 2300, 2350),
                                            instruction("sync", "EVENT_SEMAPHORE", 900, 1000)})},
        {"DmaPacketAggregated", ProfileJson::array({transfer(100, 900), transfer(2350, 3100)})}};
  }
  std::string written(const ProfileJson& json) const { return write("profile.json", json.dump()); }
  static std::string command(const std::string& profile) {
    const auto trace = source_dir() / "fuzz/corpus/kernel_trace/matmul";
    return "nki --from-trace " + trace.string() + " --measured " + profile + " ";
  }
  ProfileJson classes_of(const std::string& profile) const {
    expect(neuronmm(command(profile) + "--json " + path("out.json")), 0, {});
    return ProfileJson::parse(read(path("out.json")))["measured"];
  }
};

const ProfileJson* row_of_class(const ProfileJson& measured, const std::string& name) {
  for (const ProfileJson& row : measured["classes"]) {
    if (row["class"] == name) return &row;
  }
  return nullptr;
}

TEST_F(MeasuredCommand, EachClassHasBothTimes) {
  const ProfileJson measured = classes_of(written(tables()));
  EXPECT_EQ(measured["schema"], "7.4.0");
  EXPECT_DOUBLE_EQ(measured["latency_ms"].get<double>(), 3000 / 1e6);
  struct Expected {
    const char *engine, *name;
    double ns;
    int instructions;
  };
  for (const Expected& e :
       {Expected{"tensor", "nc_matmul", 700, 2}, Expected{"tensor", "loads of weights", 100, 1},
        Expected{"vector", "tensor_copy", 300, 1}, Expected{"scalar", "activation", 50, 1},
        Expected{"sync", "synchronization", 100, 1}, Expected{"dma", "transfers", 1550, 2}}) {
    const ProfileJson* const row = row_of_class(measured, e.name);
    ASSERT_NE(row, nullptr) << e.name;
    EXPECT_EQ((*row)["engine"], e.engine);
    EXPECT_NEAR((*row)["measured_ms"].get<double>(), e.ns / 1e6, 1e-12) << e.name;
    EXPECT_EQ((*row)["measured_instructions"], e.instructions) << e.name;
  }
  // The trace multiplies once and moves tensors, and nothing in it synchronizes.
  EXPECT_GT((*row_of_class(measured, "nc_matmul"))["predicted_ms"].get<double>(), 0);
  EXPECT_GT((*row_of_class(measured, "transfers"))["predicted_instructions"], 1);
  EXPECT_EQ((*row_of_class(measured, "synchronization"))["predicted_ms"], 0);
  EXPECT_EQ((*row_of_class(measured, "activation"))["predicted_instructions"], 1);
  EXPECT_EQ((*row_of_class(measured, "tensor_copy"))["predicted_instructions"], 0);
  // The classes with the longest measured time come first.
  EXPECT_EQ(measured["classes"][0]["class"], "transfers");
}

TEST_F(MeasuredCommand, TheReportSaysWhatItCompares) {
  expect(neuronmm(command(written(tables()))), 0,
         {"measured in ", "(schema 7.4.0)", "latency", "3.00 us", "nc_matmul", "0.70 us",
          "no profile of a real device was at hand"});
}

TEST_F(MeasuredCommand, RowsOfOneTableAreEnough) {
  const ProfileJson measured = classes_of(written(tables()["Instruction"]));
  EXPECT_DOUBLE_EQ(measured["latency_ms"].get<double>(), 1450 / 1e6);
  EXPECT_EQ(measured["schema"], "");
  const ProfileJson older = {{"instruction",
                              {{{"timestamp", 10261883214},
                                {"duration", 148},
                                {"label", "TensorMatrix"},
                                {"opcode", "MATMUL"}}}}};
  const ProfileJson found = classes_of(written(older));
  EXPECT_NEAR((*row_of_class(found, "nc_matmul"))["measured_ms"].get<double>(), 148 / 1e6, 1e-12);
}

TEST_F(MeasuredCommand, TheSecondCoreOfAPairIsLeftOut) {
  ProfileJson two = tables();
  ProfileJson other = instruction("tensor", "MATMUL", 0, 100000);
  other["pcore_idx"] = 1;
  two["Instruction"].push_back(other);
  const ProfileJson measured = classes_of(written(two));
  EXPECT_EQ((*row_of_class(measured, "nc_matmul"))["measured_instructions"], 2);
  EXPECT_NE(measured["notes"].dump().find("1 rows of the second core"), std::string::npos);
}

TEST_F(MeasuredCommand, TheFirstNumberOfTheSchemaIsChecked) {
  const auto with = [this](const std::string& version) {
    ProfileJson other = tables();
    other["Metadata"][0]["profile_schema_version"] = version;
    return command(written(other));
  };
  expect(neuronmm(with("12.0.1")), 0, {"those of schema 7, the profile has 12.0.1"});
  for (const char* version : {"6.9.9", "13.0.0", "x"}) {
    expect(neuronmm(with(version)), 1, {"profile_schema_version\": expected 7 to 12, found"});
  }
}

TEST_F(MeasuredCommand, BadFilesAreRefusedWithTheirPlace) {
  const auto broken = [this](const auto& change) {
    ProfileJson other = tables();
    change(other);
    return command(written(other));
  };
  expect(neuronmm(broken([](ProfileJson& t) { t["Instruction"][1].erase("opcode"); })), 1,
         {"profile.json: \"Instruction\"[1]", "\"opcode\""});
  expect(neuronmm(broken([](ProfileJson& t) { t["Instruction"][2]["end_ts"] = 3; })), 1,
         {"\"Instruction\"[2]", "\"end_ts\"", "not before the begin"});
  expect(neuronmm(broken([](ProfileJson& t) { t["Instruction"][0]["start_ts"] = "soon"; })), 1,
         {"\"Instruction\"[0]", "\"start_ts\"", "soon"});
  expect(neuronmm(broken([](ProfileJson& t) { t.erase("Instruction"); })), 1,
         {"expected a table \"Instruction\""});
  expect(neuronmm(broken([](ProfileJson& t) { t["Instruction"] = ProfileJson::array(); })), 0,
         {"transfers"});
  expect(neuronmm(broken([](ProfileJson& t) { t["Instruction"] = 3; })), 1,
         {"expected an array of rows"});
  expect(neuronmm(command(write("p.json", "[]"))), 1, {"expected rows of instructions"});
  expect(neuronmm(command(write("p.json", "3"))), 1, {"expected an object of tables"});
  expect(neuronmm(command(write("p.json", "{"))), 1, {"p.json"});
  expect(neuronmm(command(path("nowhere.json"))), 1, {"nowhere.json"});
  for (const char* name : {"Instruction.parquet", "renamed.json"}) {
    expect(neuronmm(command(write(name, "PAR1 and more"))), 1,
           {"Parquet cannot be read here", "pandas.read_parquet", "orient='records'"});
  }
}

}  // namespace
}  // namespace neuronmm::apps
