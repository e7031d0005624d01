// The whole of a stage's executable: command line, device, inputs, verification, timing, report.
#pragma once

#include "common/harness/variant.h"

/// The stage of this program, as its main.cu defines it: its name and its variants.
Stage stage();

/// Runs the stage as the command line says and returns the process's exit code (errors.h). Prints errors
/// as one line on standard error.
int run_stage(const Stage& stage, int argc, const char* const* argv);
