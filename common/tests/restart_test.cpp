// A program that starts itself again under the simulator, and says whether it runs there, and a child that closes
// the files that it inherits.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "common/harness/errors.h"
#include "common/harness/simulator.h"

namespace {

const char* place() {
  return simulator() == nullptr ? "elsewhere" : "under the simulator";
}

}  // namespace

int main(int argc, const char* const* argv) try {
  if (argc != 2) return 2;
  if (std::strcmp(argv[1], "child") == 0) return simulator() == nullptr ? 1 : 0;
  restart_under_simulator(argv);
  std::printf("%s, argument '%s'\n", place(), argv[1]);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    for (int file = 3; file < 256; ++file) close(file);
    execl("/proc/self/exe", argv[0], "child", nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("its child: %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  return 0;
} catch (const NoDeviceError& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 3;
}
