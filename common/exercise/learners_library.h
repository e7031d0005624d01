// The library that a learner's file was compiled into.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "common/exercise/exercise.h"

/// What a launcher may be given; each takes what it needs.
struct LaunchArguments {
  const float* x = nullptr;
  const float* row_max = nullptr;
  const float* row_sum = nullptr;
  float* y = nullptr;
  std::int64_t first_row = 0;
  Shape shape;
  cudaStream_t stream = nullptr;
};

/// Loads the library and finds the launcher in it. The library stays loaded. Throws WrongResultError.
class LearnersLibrary {
 public:
  LearnersLibrary(const std::string& path, Launcher launcher);
  void launch(const LaunchArguments& arguments) const;

 private:
  Launcher launcher_;
  void* function_;
};
