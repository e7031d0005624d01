#include "common/harness/cli/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
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

const Stage stage{.name = "02_fused_block", .idea = "one kernel, one block per row", .variants = {}};

std::string print(const Options& options, const std::vector<Record>& records, const Screen& screen = {},
                  const Device& on = device) {
  std::ostringstream out;
  Report report(out, options, on, stage, screen);
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
  EXPECT_TRUE(has(table, "f32 softmax, 49152 x 1024, input normal\nTest GPU, CUDA 13.0, cold L2\n"));
  EXPECT_TRUE(has(table, "\n02_fused_block  one kernel, one block per row\ncub  "));
  EXPECT_TRUE(has(table, "4.00 ====         200.00    1.5 %    2013    50.0   0.25\n"));
  EXPECT_TRUE(has(table, "\nnarrow                            not applicable: at most 128 columns"));
  EXPECT_TRUE(has(table, "the median of 25 samples"));
  EXPECT_FALSE(has(table, "\033"));
}

Device simulated() {
  Device sim = device;
  sim.gpu = "CPU simulator (attributes of a GPU)";
  sim.simulated = true;
  return sim;
}

/// A record of 4 rows.
Record counted_record() {
  SimCounters counted{};
  counted.global_loads.requests = counted.global_stores.requests = 10;
  counted.global_loads.sectors = 145;
  counted.global_stores.sectors = 40;
  counted.global_loads.bytes = std::uint64_t{3} * 4 * 1024 * 4;
  counted.global_stores.bytes = std::uint64_t{4} * 1024 * 4;
  counted.shared_loads.bank_conflicts = 1540;
  counted.shuffles = 18;
  Record record{.stage = "02_fused_block",
                .variant = "fastertransformer_block_per_head",
                .problem = {{4, 1024}, DType::f32, &softmax_operation},
                .passes = 4};
  record.counted = counted;
  return record;
}

/// The output of `common/tools recorded`, in a file for as long as this lives.
class RecordedFile {
 public:
  explicit RecordedFile(const std::string& text) { std::ofstream(path_) << text; }
  RecordedFile(const RecordedFile&) = delete;
  RecordedFile& operator=(const RecordedFile&) = delete;
  ~RecordedFile() { std::remove(path_.c_str()); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = testing::TempDir() + "recorded" + std::to_string(getpid());
};

const std::string recorded =
    "NVIDIA Test\n"
    "02_fused_block fastertransformer_block_per_head f32 softmax 49152 1024 7.66\n"
    "02_fused_block fastertransformer_block_per_head f32 softmax 1024 1024 9.5\n"
    "02_fused_block fastertransformer_block_per_head f16 softmax 4 1024 1.5\n";

std::size_t longest_line(const std::string& text) {
  std::istringstream stream(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(stream, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST(Table, SimulatedNumbersArePerRow) {
  const std::string table = print({}, {counted_record()}, {.width = 130}, simulated());
  EXPECT_TRUE(has(table,
                  "\nfastertransformer_block_per_head    4.00 ====         14.5      4.0           0        "
                  "385       4.5         0   0.00\n"));
  EXPECT_FALSE(has(table, "declared"));
  EXPECT_FALSE(has(table, "recorded"));
  EXPECT_FALSE(has(table, "too narrow"));
  Record other = counted_record();
  other.passes = 3;
  EXPECT_TRUE(has(print({}, {other}, {}, simulated()), "\n    declared: 3.00 passes\n"));
}

TEST(Table, RecordedPercentagesAreOfTheNearestShape) {
  const RecordedFile file(recorded);
  Options options;
  options.recorded = file.path();
  const std::string of_default = print(options, {counted_record()}, {}, simulated());
  EXPECT_TRUE(has(of_default, "       7.7\n"));
  EXPECT_TRUE(has(of_default, "(NVIDIA Test, 49152 x 1024). Here"));
  options.rows = {4};
  const std::string of_few_rows = print(options, {counted_record()}, {}, simulated());
  EXPECT_TRUE(has(of_few_rows, "       9.5\n"));
  EXPECT_TRUE(has(of_few_rows, "(NVIDIA Test, 1024 x 1024)"));
  Record wider = counted_record();
  wider.problem.shape.cols = 1025;
  EXPECT_FALSE(has(print(options, {wider}, {}, simulated()), "recorded"));
  EXPECT_FALSE(has(print(options, {timed_record()}), "recorded")) << "a GPU has times of its own";
}

TEST(Table, RecordedPercentagesAreRefusedWhereTheyAreNone) {
  for (const std::string& text : {std::string(), std::string("GPU\n"), recorded + "02_fused_block x f32\n"}) {
    const RecordedFile file(text);
    EXPECT_THROW(RecordedPercentages{file.path()}, UsageError) << text;
  }
  EXPECT_THROW(RecordedPercentages{"/nowhere"}, UsageError);
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  ASSERT_EQ(write(ends[1], recorded.data(), recorded.size()), static_cast<ssize_t>(recorded.size()));
  close(ends[1]);
  EXPECT_THROW(RecordedPercentages{"/dev/fd/" + std::to_string(ends[0])}, UsageError) << "not a regular file";
  close(ends[0]);
}

TEST(Table, NoLineIsWiderThanTheScreen) {
  const RecordedFile file(recorded);
  Options options;
  options.recorded = file.path();
  Record counted = counted_record();
  Record timed = timed_record();
  counted.variant = timed.variant = "fastertransformer_block_per_head";
  timed.timing->variant = {123456.78, 123.4};
  Record wrong = counted_record();
  wrong.status = Status::wrong;
  wrong.reason =
      "row 7, column 1023: got 0.0009765625, expected 0.001953125; and many more words of the same kind";
  for (const std::size_t width : {80U, 100U, 120U}) {
    const Screen screen{.width = width};
    const std::string of_counts =
        print(options, {counted, wrong, not_applicable_record()}, screen, simulated());
    EXPECT_LE(longest_line(of_counts), width) << of_counts;
    EXPECT_TRUE(has(of_counts, "recorded"));
    EXPECT_TRUE(has(of_counts, "WRONG: row 7, column 1023"));
    EXPECT_TRUE(has(of_counts, "narrow for: wavefronts/row"));
    const std::string of_times = print({}, {timed, not_applicable_record()}, screen);
    EXPECT_LE(longest_line(of_times), width) << of_times;
    EXPECT_TRUE(has(of_times, "% of"));
  }
}

TEST(Table, TheNumberThatTheStageChangesIsBold) {
  const std::string table = print({}, {timed_record()}, {.width = 100, .has_styles = true});
  EXPECT_TRUE(has(table, "\033[1m  4.00\033[0m"));
  EXPECT_TRUE(has(table, "\033[1m  50.0\033[0m"));
  EXPECT_TRUE(has(table, "\033[1m02_fused_block\033[0m"));
  EXPECT_FALSE(has(table, "\033[1m   200.00"));
  EXPECT_TRUE(has(table, "Bold: "));
}

TEST(Report, SectionsLeaveOutTheRest) {
  Options options;
  options.sections = {false, true, false};
  Record ceiling = timed_record();
  ceiling.stage = "";
  ceiling.variant = "copy";
  const std::string table = print(options, {timed_record(), ceiling});
  EXPECT_FALSE(has(table, "49152 x 1024"));
  EXPECT_FALSE(has(table, "GB/s: "));
  EXPECT_FALSE(has(table, "copy"));
  EXPECT_TRUE(has(table, "02_fused_block"));
}

TEST(Report, CsvHasOneHeaderAndQuotesText) {
  Options options;
  options.format = Format::csv;
  Record loss = timed_record();  // reads a matrix and its labels, and writes a number for each row
  loss.problem.op = &cross_entropy_operation;
  const std::string csv = print(options, {timed_record(), not_applicable_record(), loss});
  EXPECT_EQ(
      csv,
      "stage,variant,dtype,op,rows,cols,input,status,reason,time_us,spread_percent,copy_us,"
      "copy_spread_percent,percent_of_copy,bandwidth_gb_s,passes,max_error,note\n"
      "02_fused_block,cub,f32,softmax,49152,1024,normal,verified,,200.000,1.50,100.000,0.50,50.00,2013.3,4."
      "0000,0.2500,\n"
      "02_fused_block,narrow,f32,softmax,49152,1024,normal,not applicable,\"at most 128 columns, says "
      "\"\"it\"\"\""
      ",,,,,,,,,\n"
      "02_fused_block,cub,f32,cross_entropy,49152,1024,normal,verified,,200.000,1.50,100.000,0.50,50.00,1009."
      "6,4."
      "0000,0.2500,\n");
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
