#include "common/harness/cli/report.h"

#include <gtest/gtest.h>

#include <sstream>

namespace {

const Device device{.gpu = "Test GPU",
                    .compute_capability = "9.0",
                    .multiprocessors = 132,
                    .l2_bytes = 60U << 20U,
                    .memory_bytes = std::size_t{1} << 30U,
                    .cuda_driver = "13.0",
                    .cuda_runtime = "13.0"};

Record timed_record() {
  Record record{.stage = "02_fused_block",
                .variant = "cub",
                .problem = {{49152, 1024}, DType::f32, &softmax_operation},
                .passes = 4,
                .max_error = 0.25};
  record.timing = TimedVariant{{200, 1.5}, {100, 0.5}};
  return record;
}

Record not_applicable_record() {
  return {.stage = "02_fused_block",
          .variant = "narrow",
          .problem = {{49152, 1024}, DType::f32, &softmax_operation},
          .status = Status::not_applicable,
          .reason = "at most 128 columns, says \"it\""};
}

std::string print(const Options& options, const std::vector<Record>& records) {
  std::ostringstream out;
  Report report(out, options, device);
  report.begin(records.front().problem, InputKind::normal);
  for (const Record& record : records) report.add(record);
  report.finish();
  return out.str();
}

testing::AssertionResult has(const std::string& text, const std::string& part) {
  return (text.find(part) == std::string::npos ? testing::AssertionFailure() : testing::AssertionSuccess())
         << "'" << part << "' in\n"
         << text;
}

TEST(Report, TableShowsPassesTimeBandwidthAndPercentOfCopy) {
  const std::string table = print({}, {timed_record(), not_applicable_record()});
  EXPECT_TRUE(
      has(table, "f32 softmax, 49152 x 1024, input normal  (Test GPU, CUDA 13.0, cold L2, median of 25)"));
  EXPECT_TRUE(has(table, "4.00       200.00     1.5 %      2013        50.0     0.25"));
  EXPECT_TRUE(has(table, "not applicable: at most 128 columns"));
}

TEST(Report, SectionsLeaveOutTheRest) {
  Options options;
  options.sections = {false, true, false};
  Record ceiling = timed_record();
  ceiling.stage = "";
  ceiling.variant = "copy";
  const std::string table = print(options, {timed_record(), ceiling});
  EXPECT_FALSE(has(table, "49152 x 1024"));
  EXPECT_FALSE(has(table, "copy"));
  EXPECT_TRUE(has(table, "02_fused_block"));
}

TEST(Report, CsvHasOneHeaderAndQuotesText) {
  Options options;
  options.format = Format::csv;
  const std::string csv = print(options, {timed_record(), not_applicable_record()});
  EXPECT_EQ(
      csv,
      "stage,variant,dtype,op,rows,cols,input,status,reason,time_us,spread_percent,copy_us,"
      "copy_spread_percent,percent_of_copy,bandwidth_gb_s,passes,max_error,note\n"
      "02_fused_block,cub,f32,softmax,49152,1024,normal,verified,,200.000,1.50,100.000,0.50,50.00,2013.3,4."
      "0000,0.2500,\n"
      "02_fused_block,narrow,f32,softmax,49152,1024,normal,not applicable,\"at most 128 columns, says "
      "\"\"it\"\"\""
      ",,,,,,,,,\n");
}

TEST(Report, JsonHasNullWhereThereIsNoNumber) {
  Options options;
  options.format = Format::json;
  const std::string json = print(options, {timed_record(), not_applicable_record()});
  EXPECT_TRUE(has(json, R"("gpu": "Test GPU", "compute_capability": "9.0", "multiprocessors": 132)"));
  EXPECT_TRUE(
      has(json,
          R"("time_us": 200.000, "spread_percent": 1.50, "copy_us": 100.000, "copy_spread_percent": 0.50)"));
  EXPECT_TRUE(has(json, R"("reason": "at most 128 columns, says \"it\"", "time_us": null)"));
}

TEST(Report, VerifyOnlyNamesWhatIsWrongAndCounts) {
  Options options;
  options.verify_only = true;
  Record wrong = timed_record();
  wrong.timing.reset();
  wrong.status = Status::wrong;
  wrong.reason = "3 of 9 elements wrong";
  Record right = wrong;
  right.status = Status::verified;
  right.reason = "";
  const std::string text = print(options, {wrong, right, right, not_applicable_record()});
  EXPECT_TRUE(has(text, "WRONG  cub, f32 softmax, 49152 x 1024, input normal: 3 of 9 elements wrong\n"));
  EXPECT_TRUE(has(text, "     2 verified     1 wrong     0 not applicable   worst error 0.250"));
  EXPECT_TRUE(has(text, "     0 verified     0 wrong     1 not applicable"));
}

}  // namespace
