#include "common/harness/cli/command_line.h"

#include <gtest/gtest.h>

namespace {

Stage stage() {
  return {.name = "00_test",
          .idea = "a stage for tests",
          .variants = {{"first", "", {}, {}}, {"second", "", {}, {}}}};
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

TEST(CommandLine, EveryOptionArrives) {
  const Options options =
      parse({"--rows",    "0,7",          "--cols=1,2,3", "--dtype",       "all",          "--op",
             "all",       "--input",      "all",          "--variant",     "second,first", "--seed",
             "9",         "--repeats=5",  "--l2=warm",    "--offset",      "1,3,5",        "--format=json",
             "--section", "rows,ceiling", "--device=sim", "--verify-only", "--list",       "--recorded=f",
             "--help"});
  EXPECT_EQ(options.rows, (std::vector<std::int64_t>{0, 7}));
  EXPECT_EQ(options.cols, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(options.dtypes, all_dtypes());
  EXPECT_EQ(options.ops, softmax_operations());
  EXPECT_EQ(options.inputs, all_inputs());
  EXPECT_EQ(options.variants, (std::vector<std::string>{"second", "first"}));
  EXPECT_EQ(options.seed, 9U);
  EXPECT_EQ(options.repeats, 5);
  EXPECT_EQ(options.l2, L2::warm);
  EXPECT_EQ(options.offsets.input, 1);
  EXPECT_EQ(options.offsets.output, 3);
  EXPECT_EQ(options.offsets.next, 5);
  EXPECT_EQ(parse({"--offset=2"}).offsets.output, 2);
  EXPECT_EQ(options.format, Format::json);
  EXPECT_FALSE(options.sections.heading);
  EXPECT_TRUE(options.sections.rows && options.sections.ceiling);
  EXPECT_EQ(options.device, RunOn::sim);
  EXPECT_EQ(options.recorded, "f");
  EXPECT_TRUE(parse({"--recorded="}).recorded.has_value());  // no file's name, which is refused
  EXPECT_FALSE(parse({}).recorded.has_value());
  EXPECT_TRUE(options.verify_only && options.list && options.help);
  EXPECT_TRUE(parse({"--profile", "--variant=first"}).profile);
}

TEST(CommandLine, RefusalsNameOptionValueAndWhatIsAccepted) {
  const std::string columns = "accepted: whole numbers from 1 to 1099511627776";
  const std::string rows = "accepted: whole numbers from 0 to 1099511627776";
  struct Refused {
    std::vector<std::string> arguments;
    std::string begin;  ///< of the message
  };
  for (const auto& [arguments, begin] : std::vector<Refused>{
           {{"--cols", "0"}, "--cols: '0' is not accepted; " + columns},
           {{"--cols", "-3"}, "--cols: '-3' is not accepted; " + columns},
           {{"--cols", "1e9"}, "--cols: '1e9' is not accepted; " + columns},
           {{"--cols", " 7"}, "--cols: ' 7' is not accepted; " + columns},
           {{"--cols", "7,"}, "--cols: '' is not accepted; " + columns},
           {{"--rows", "7,x"}, "--rows: 'x' is not accepted; " + rows},
           {{"--rows=-1"}, "--rows: '-1' is not accepted; " + rows},
           {{"--rows", "9999999999999999999"}, "--rows: '9999999999999999999' is not accepted; " + rows},
           {{"--dtype", "f8"}, "--dtype: 'f8' is not accepted; accepted: f32, f16, bf16, all"},
           {{"--dtype", "f32,"}, "--dtype: '' is not accepted; accepted: f32, f16, bf16, all"},
           {{"--op", "max"}, "--op: 'max' is not accepted; accepted: softmax, log_softmax, all"},
           {{"--variant", "third"}, "--variant: 'third' is not accepted; accepted: first, second, all"},
           {{"--input", "ones"}, "--input: 'ones' is not accepted; accepted: normal, uniform, "},
           {{"--repeats", "0"}, "--repeats: '0' is not accepted; accepted: whole numbers from 1 to 100000"},
           {{"--offset", "1025"}, "--offset: '1025' is not accepted; accepted: whole numbers from 0 to 1024"},
           {{"--offset", "1,2,3,4"}, "--offset: '1,2,3,4' is not accepted; accepted: up to three numbers: "},
           {{"--l2", "hot"}, "--l2: 'hot' is not accepted; accepted: cold, warm"},
           {{"--format", "xml"}, "--format: 'xml' is not accepted; accepted: table, csv, json"},
           {{"--section", "foot"}, "--section: 'foot' is not accepted; accepted: heading, rows, ceiling"},
           {{"--device", "tpu"}, "--device: 'tpu' is not accepted; accepted: gpu, sim"},
           {{"--colums", "7"}, "unknown option '--colums'; did you mean --cols?; accepted: --rows, --cols, "},
           {{"--variant", "frist"}, "--variant: 'frist' is not accepted; accepted: first, second, all"},
           {{"--variant", "firs"},
            "--variant: 'firs' is not accepted; did you mean first?; accepted: first, "},
           {{"--variant", "a_second"},
            "--variant: 'a_second' is not accepted; did you mean second?; accepted"},
           {{"7"}, "unknown option '7'; accepted: --rows, "},
           {{"--cols"}, "--cols needs a value: columns, 1 or more"},
           {{"--list=1"}, "--list takes no value"},
           {{"--profile"}, "--profile is one launch: give one --variant (first, second), shape"},
           {{"--profile", "--variant", "first,second"}, "--profile is one launch"},
           {{"--profile", "--variant", "first", "--dtype", "all"}, "--profile is one launch"},
       }) {
    EXPECT_EQ(refusal(arguments).substr(0, begin.size()), begin);
  }
}

TEST(CommandLine, HelpSaysHowManyRowsThereAreWithoutTheOption) {
  EXPECT_NE(help_text(stage()).find("(default " + std::to_string(default_rows(false)) +
                                    ", on the simulator " + std::to_string(default_rows(true)) + ")"),
            std::string::npos);
}

}  // namespace
