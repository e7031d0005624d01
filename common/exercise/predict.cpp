// The check of an exercise to predict: the learner's numbers first, then the counts.
#include <cmath>
#include <fstream>
#include <iostream>
#include <map>

#include "common/exercise/exercise.h"
#include "common/harness/device.h"
#include "common/harness/errors.h"
#include "common/harness/simulator.h"

namespace {

/// Row values and such count a little more than the pencil says: 8.006 passes for 8.
constexpr double tolerance = 0.02;

bool is(double answer, double value) {
  return std::fabs(answer - value) <= tolerance;
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// The lines "name = answer" of a file; a # begins a comment. Throws UsageError.
std::map<std::string, std::string> read_answers(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw UsageError("cannot read " + path);
  std::map<std::string, std::string> answers;
  for (std::string line; std::getline(in, line);) {
    line = line.substr(0, line.find('#'));
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    std::string& answer = answers[trimmed(line.substr(0, equals))];
    // Two lines for one question: neither is the answer.
    answer += (answer.empty() ? "" : " and ") + trimmed(line.substr(equals + 1));
  }
  return answers;
}

/// The mistake in the answer to a question; "" if it is right.
std::string problem_with(const Question& question, const std::map<std::string, std::string>& answers) {
  const auto found = answers.find(question.name);
  if (found == answers.end())
    return "There is no line `" + question.name +
           " = ...` any more: write it again, or use --reset (which keeps a copy of your answers).";
  const std::string& text = found->second;
  if (text.empty() || text == "?") {
    return "`" + question.name + "` has no answer yet: write a number in place of the question mark.";
  }
  std::size_t used = 0;
  double answer = NAN;
  try {
    answer = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used != text.size() || !std::isfinite(answer)) {
    return "`" + question.name + " = " + text + "`: a number is wanted, and one line for each question.";
  }
  if (is(answer, question.counted())) return "";
  const std::string wrong = "`" + question.name + " = " + text + "` is not the counted number. ";
  for (const Question::Mistake& mistake : question.mistakes) {
    if (is(answer, mistake.answer)) return wrong + mistake.advice;
  }
  return wrong + question.advice;
}

/// Every mistake, and -1 for any other wrong answer: question, answer and advice, with tabs between them.
void print_mistakes(const Prediction& prediction) {
  for (const Question& question : prediction.questions) {
    for (const Question::Mistake& mistake : question.mistakes)
      std::cout << question.name << "\t" << mistake.answer << "\t" << mistake.advice << "\n";
    std::cout << question.name << "\t-1\t" << question.advice << "\n";
  }
}

int check(const Prediction& prediction, int argc, const char* const* argv) {
  if (argc < 2) throw UsageError("wanted: LEARNERS_FILE");
  if (std::string(argv[1]) == "--mistakes") {
    print_mistakes(prediction);
    return 0;
  }
  if (simulator() == nullptr) {
    restart_under_simulator(argv);
    throw NoDeviceError("the simulator was not built");
  }
  const std::map<std::string, std::string> answers = read_answers(argv[1]);
  for (const Question& question : prediction.questions) {
    const std::string problem = problem_with(question, answers);
    if (problem.empty()) continue;
    std::cout << problem
              << "\n\nTo do: answer the questions from top to bottom; the lesson says how to derive each.\n";
    return static_cast<int>(ExitCode::wrong_result);
  }
  std::cout << "Solved: every number is the one that is counted.\n\n" << prediction.why << "\n\nCounted:\n";
  for (const Question& question : prediction.questions) {
    std::cout << "  " << question.name << " = " << number(question.counted()) << "\n";
  }
  return 0;
}

}  // namespace

int check_prediction(const Prediction& prediction, int argc, const char* const* argv) {
  try {
    return check(prediction, argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return static_cast<int>(exit_code(error));
  }
}
