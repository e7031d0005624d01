// The ways in which a run can fail, and their exit codes, for every executable and the C interface.
#pragma once

#include <exception>
#include <stdexcept>

/// Exit codes of every executable, as --help lists them.
enum class ExitCode { fine = 0, wrong_result = 1, bad_usage = 2, no_device = 3, cuda_error = 4 };

/// A request that cannot be fulfilled. what() is one line with the mistake and the accepted values.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// No device that the stages can run on. what() gives the reason and the remedy.
class NoDeviceError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A wrong result outside of a verdict.
class WrongResultError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline ExitCode exit_code(const std::exception& error) {
  if (dynamic_cast<const UsageError*>(&error) != nullptr) return ExitCode::bad_usage;
  if (dynamic_cast<const NoDeviceError*>(&error) != nullptr) return ExitCode::no_device;
  if (dynamic_cast<const WrongResultError*>(&error) != nullptr) return ExitCode::wrong_result;
  return ExitCode::cuda_error;
}
