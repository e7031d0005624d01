// For tests of printed text.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

/// The text that `run` writes to a stream of the C library (stdout or stderr), which glibc lets us exchange.
template <class Run>
std::string captured(std::FILE*& stream, Run run) {
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* const before = stream;
  stream = open_memstream(&text, &bytes);
  run();
  std::fclose(stream);
  stream = before;
  const std::string result(text, bytes);
  std::free(text);
  return result;
}
