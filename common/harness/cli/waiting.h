// Tells the reader which step takes long.
#pragma once

#include <optional>
#include <string>
#include <thread>

/// From two seconds after its construction until its end, a line on the terminal names the step and the time
/// it has taken. Does nothing if standard error is not a terminal.
class Waiting {
 public:
  explicit Waiting(std::string what);

 private:
  std::optional<std::jthread> clock_;
};
