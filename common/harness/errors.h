// What can go wrong in a run, and the code that says so: of every executable, and of the C interface.
#pragma once

#include <exception>
#include <stdexcept>

/// Exit codes of every executable, as --help lists them.
enum class ExitCode { fine = 0, wrong_result = 1, bad_usage = 2, no_device = 3, cuda_error = 4 };

/// Something asked for that cannot be done. what() is one line: what was wrong, and what is accepted.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// No device that the stages can run on. what() says why, and what is needed.
class NoDeviceError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A result that is wrong where there is no verdict to say so.
class WrongResultError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline ExitCode exit_code(const std::exception& error) {
  if (dynamic_cast<const UsageError*>(&error) != nullptr) return ExitCode::bad_usage;
  if (dynamic_cast<const NoDeviceError*>(&error) != nullptr) return ExitCode::no_device;
  if (dynamic_cast<const WrongResultError*>(&error) != nullptr) return ExitCode::wrong_result;
  return ExitCode::cuda_error;
}
