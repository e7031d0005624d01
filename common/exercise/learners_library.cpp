#include "common/exercise/learners_library.h"

#include <dlfcn.h>

#include <array>

#include "common/harness/errors.h"

namespace {

/// In the order of Launcher.
constexpr std::array<const char*, 3> names{"softmax", "softmax_from_max_and_sum", "softmax_of_rows"};

}  // namespace

LearnersLibrary::LearnersLibrary(const std::string& path, Launcher launcher) : launcher_(launcher) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string reason = dlerror();
    const std::string undefined = "undefined symbol: ";
    const std::size_t symbol = reason.find(undefined);
    if (symbol == std::string::npos) throw WrongResultError("Not complete: " + reason + ".");
    throw WrongResultError("Not complete: the file uses a function that it does not define: " +
                           reason.substr(symbol + undefined.size()) + ".");
  }
  const char* name = names.at(static_cast<std::size_t>(launcher));
  function_ = dlsym(library, name);
  if (function_ == nullptr) {
    throw WrongResultError(std::string("Not complete: the file defines no function `") + name +
                           "` with the parameters of common/exercise/launchers.cuh.");
  }
}

void LearnersLibrary::launch(const LaunchArguments& a) const {
  switch (launcher_) {
    case Launcher::softmax:
      return reinterpret_cast<void (*)(const float*, float*, Shape, cudaStream_t)>(function_)(
          a.x, a.y, a.shape, a.stream);
    case Launcher::softmax_from_max_and_sum:
      return reinterpret_cast<void (*)(const float*, const float*, const float*, float*, Shape,
                                       cudaStream_t)>(function_)(a.x, a.row_max, a.row_sum, a.y, a.shape,
                                                                 a.stream);
    case Launcher::softmax_of_rows:
      return reinterpret_cast<void (*)(const float*, float*, std::int64_t, Shape, cudaStream_t)>(function_)(
          a.x, a.y, a.first_row, a.shape, a.stream);
  }
}
