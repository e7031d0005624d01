// Says what takes long.
#pragma once

#include <optional>
#include <string>
#include <thread>

/// From two seconds after its construction until its end, a line on the terminal: what is done, and for how long so
/// far. Nothing where standard error is no terminal.
class Waiting {
 public:
  explicit Waiting(std::string what);

 private:
  std::optional<std::jthread> clock_;
};
