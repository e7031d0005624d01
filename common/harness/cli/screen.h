// The destination of a table: its width, and whether it may have bold letters.
#pragma once

#include <cstddef>
#include <string>

struct Screen {
  std::size_t width = 100;  ///< columns
  bool has_styles = false;
};

/// The screen of the standard output: a terminal's own width; elsewhere $COLUMNS, or 100. Styles are used
/// only on a terminal, and not if NO_COLOR is set.
Screen screen_of_output();

std::string bold(const std::string& text, const Screen& screen);

/// Words, in lines of the screen's width that begin with `indent` blanks; the first line goes on after a text of
/// `indent` columns. A word that is too long gets a line of its own.
std::string wrapped(const std::string& words, const Screen& screen, std::size_t indent);
