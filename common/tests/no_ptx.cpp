// An executable whose PTX the simulator cannot read: it is compiled in ways that leave none.
#include <cstdio>

#include "common/harness/device.h"
#include "common/harness/errors.h"

int main() try {
  (void)open_device();
  std::printf("it runs\n");
  return 0;
} catch (const NoDeviceError& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 3;
}
