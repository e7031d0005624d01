// An exercise that checks itself. A folder NN_stage/exercise/NAME, or common/primer/exercise/NAME, holds
//
//   starter.cu    the file that the learner begins with (starter.txt if the exercise is to predict); its
//                 first line is the title that `./run exercise` shows
//   hints.md      three hints, each stronger than the one before
//   solution.cu   (solution.txt)
//   check.cpp     a main() that hands an Exercise or a Prediction to this header (check.cu with kernels)
//   before.cu     optional: the kernels that a learner's counters are compared with, instead of the starter's
//
// common/tools/learn/exercise.py compiles the learner's file into a library, and starts the check with it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/exercise/counters.h"
#include "common/harness/input.h"
#include "common/harness/problem.h"

/// Which function of launchers.cuh the learner's file defines.
enum class Launcher {
  softmax,
  softmax_from_max_and_sum,
  softmax_of_rows,
  softmax_backward,
  cross_entropy,
  causal_softmax,
  copy_vector,
  sum_rows
};

/// A number that the technique fixes or bounds.
struct Rule {
  Counter counter;
  double least;
  double most;
  std::string advice;          ///< shown if the rule is broken: the meaning of the number, and where to look
  std::string advice_below{};  ///< shown instead if the number is below `least`; empty: the same advice
};

struct Exercise {
  std::string kernel;  ///< the name of the one kernel to launch
  Launcher launcher = Launcher::softmax;
  bool clusters = false;  ///< whether it needs a GPU of compute capability 9.0 or newer
  /// The result is verified for each of them, with each input, in this order; then again with warps and
  /// blocks running in another order.
  std::vector<Shape> shapes;
  std::vector<InputKind> inputs;
  std::vector<std::int64_t> first_rows{0};      ///< Launcher::softmax_of_rows: with each of them as well
  std::vector<Shape> counted;                   ///< the rules are applied to these
  InputKind counted_input = InputKind::normal;  ///< with this input
  /// Most instructions of a warp for 32 elements: a loop in a single thread needs some 32 times as many.
  double instructions = 0;
  /// Further rules; every exercise also requires one kernel in which every lane does its share. The first broken rule
  /// is reported. A request may have more sectors than a rule allows if it loads proportionally more bytes, in packs.
  std::vector<Rule> rules;
  /// Rules that depend on the launch or on the counts.
  std::function<std::vector<Rule>(const Counts&)> more_rules;
  std::string task;  ///< shown after any mistake: the task in a line or two
  std::string why;   ///< shown on success: two sentences on why it works
  /// Also shown on success: a correct number that could be lower; "" if there is nothing to add.
  std::function<std::string(const Counts&)> remark;
  std::string before;  ///< the name of the code to compare the counters with on success: "the starter"
  std::vector<Counter> compared;
};

/// Arguments: LEARNERS_LIBRARY BEFORE_LIBRARY [--device gpu|sim]. Prints the first mistake, or the counts
/// before and after. Returns 0 solved, 1 not yet, 2 bad usage, 3 no device.
int check_exercise(const Exercise& exercise, int argc, const char* const* argv);

/// A number that the learner predicts and the simulator counts.
struct Question {
  /// A typical wrong answer, and the advice for it.
  struct Mistake {
    double answer;
    std::string advice;
  };

  std::string name;                 ///< as in the learner's file: "name = number"
  std::function<double()> counted;  ///< runs under the simulator
  std::vector<Mistake> mistakes;
  std::string advice;  ///< for any other wrong answer
};

struct Prediction {
  std::vector<Question> questions;
  std::string why;
};

/// Arguments: LEARNERS_FILE, or --mistakes, which prints the wrong answers for the test. As check_exercise; always on the
/// simulator, which counts.
int check_prediction(const Prediction& prediction, int argc, const char* const* argv);
