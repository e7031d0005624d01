#include "common/harness/cli/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string_view>

Screen screen_of_output() {
  Screen screen;
  const char* columns = std::getenv("COLUMNS");
  const long given = columns == nullptr ? 0 : std::strtol(columns, nullptr, 10);
  if (given > 0) screen.width = static_cast<std::size_t>(given);
  if (isatty(STDOUT_FILENO) == 0) return screen;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) screen.width = size.ws_col;
  const char* terminal = std::getenv("TERM");
  const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  screen.has_styles = !is_dumb && std::getenv("NO_COLOR") == nullptr;
  return screen;
}

std::string bold(const std::string& text, const Screen& screen) {
  return screen.has_styles ? std::string("\033[1m").append(text).append("\033[0m") : text;
}

std::string wrapped(const std::string& words, const Screen& screen, std::size_t indent) {
  std::istringstream stream(words);
  std::string text;
  std::size_t column = indent;
  for (std::string word; stream >> word; column += word.size()) {
    const bool begins = column == indent;
    if (!begins && column + 1 + word.size() > screen.width) {
      text += '\n';
      text.append(indent, ' ');
      column = indent;
    } else if (!begins) {
      text += ' ';
      ++column;
    }
    text += word;
  }
  return text;
}
