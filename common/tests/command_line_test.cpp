#include "common/harness/cli/command_line.h"

#include <gtest/gtest.h>

namespace {

Stage stage() {
  Stage stage{"00_test", "a stage for tests", {}};
  stage.variants.push_back({"first", "", {}, {}});
  stage.variants.push_back({"second", "", {}, {}});
  return stage;
}

Options parse(const std::vector<std::string>& arguments) {
  return parse_command_line(arguments, stage());
}

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse(arguments);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CommandLine, DefaultsAreOneProblem) {
  const Options options = parse({});
  EXPECT_TRUE(options.rows.empty());
  EXPECT_EQ(options.cols, std::vector<std::int64_t>{1024});
  EXPECT_EQ(options.dtypes, std::vector<DType>{DType::f32});
  EXPECT_EQ(options.ops, std::vector<const Operation*>{&softmax_operation});
  EXPECT_EQ(options.inputs, std::vector<InputKind>{InputKind::normal});
  EXPECT_TRUE(options.variants.empty());
  EXPECT_EQ(options.l2, L2::cold);
  EXPECT_EQ(options.device, RunOn::automatic);
  EXPECT_EQ(options.format, Format::table);
  EXPECT_FALSE(options.verify_only || options.profile || options.list || options.help);
}

TEST(CommandLine, ListsAndAll) {
  const Options options = parse({"--rows", "0,7", "--cols=1,2,3", "--dtype", "all", "--op", "all", "--input",
                                 "all", "--variant", "second,first"});
  EXPECT_EQ(options.rows, (std::vector<std::int64_t>{0, 7}));
  EXPECT_EQ(options.cols, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(options.dtypes, all_dtypes());
  EXPECT_EQ(options.ops, softmax_operations());
  EXPECT_EQ(options.inputs, all_inputs());
  EXPECT_EQ(options.variants, (std::vector<std::string>{"second", "first"}));
}

TEST(CommandLine, Sections) {
  const Options options = parse({"--section", "rows,ceiling"});
  EXPECT_FALSE(options.sections.heading);
  EXPECT_TRUE(options.sections.rows);
  EXPECT_TRUE(options.sections.ceiling);
}

TEST(CommandLine, RefusalsNameOptionValueAndWhatIsAccepted) {
  EXPECT_EQ(refusal({"--cols", "0"}),
            "--cols: '0' is not accepted; accepted: whole numbers from 1 to 1099511627776");
  EXPECT_EQ(refusal({"--rows", "7,x"}),
            "--rows: 'x' is not accepted; accepted: whole numbers from 0 to 1099511627776");
  EXPECT_EQ(refusal({"--dtype", "f32,"}), "--dtype: '' is not accepted; accepted: f32, f16, bf16");
  EXPECT_EQ(refusal({"--variant", "third"}), "--variant: 'third' is not accepted; accepted: first, second");
  EXPECT_EQ(refusal({"--cols", " 7"}).substr(0, 25), "--cols: ' 7' is not accep");
  EXPECT_EQ(refusal({"7"}).substr(0, 19), "unknown option '7';");
}

TEST(CommandLine, ProfileIsOneLaunch) {
  EXPECT_NE(refusal({"--profile"}), "accepted");
  EXPECT_NE(refusal({"--profile", "--variant", "first,second"}), "accepted");
  EXPECT_NE(refusal({"--profile", "--variant", "first", "--dtype", "all"}), "accepted");
  EXPECT_EQ(refusal({"--profile", "--variant", "first"}), "accepted");
}

/// What scripts and lessons use, each with a value that is accepted.
const std::vector<std::vector<std::string>> documented_options{
    {"--rows", "7"},
    {"--cols", "7"},
    {"--dtype", "f16"},
    {"--op", "softmax"},
    {"--variant", "first"},
    {"--input", "normal"},
    {"--seed", "7"},
    {"--repeats", "7"},
    {"--l2", "warm"},
    {"--offset", "7"},
    {"--verify-only"},
    {"--profile", "--variant", "first"},
    {"--format", "csv"},
    {"--section", "rows"},
    {"--list"},
    {"--device", "sim"},
    {"--help"},
};

TEST(CommandLine, AcceptsAndExplainsTheDocumentedOptions) {
  const std::string help = help_text(stage());
  for (const std::vector<std::string>& option : documented_options) {
    EXPECT_EQ(refusal(option), "accepted") << option[0];
    EXPECT_NE(help.find("\n  " + option[0] + " "), std::string::npos) << option[0];
  }
  const auto explained = [&help] {
    std::ptrdiff_t lines = 0;
    for (std::size_t at = help.find("\n  --"); at != std::string::npos; at = help.find("\n  --", at + 1))
      ++lines;
    return lines;
  };
  EXPECT_EQ(explained(), std::ssize(documented_options)) << "an option is not among those above";
}

TEST(CommandLine, HelpSaysHowManyRowsThereAreWithoutTheOption) {
  EXPECT_NE(help_text(stage()).find("(default " + std::to_string(default_rows(false)) +
                                    ", on the simulator " + std::to_string(default_rows(true)) + ")"),
            std::string::npos);
}

}  // namespace
