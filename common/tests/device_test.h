// The main() of a test that needs a device: exits with 3 where there is none.
#pragma once

#include <cstdio>
#include <exception>

#include "common/harness/device.h"
#include "common/harness/errors.h"

/// `test` is given the device, and returns whether all is right.
template <class Test>
int run_on_device(Test test) {
  try {
    return static_cast<int>(test(open_device()) ? ExitCode::fine : ExitCode::wrong_result);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return static_cast<int>(exit_code(error));
  }
}
