// Linked with the object of a stage's main.cu it makes the library from which common/harness/c/c_interface.h
// takes the stage.
#include "common/harness/cli/run_stage.h"

extern "C" const Stage* softmax_stage() {
  static const Stage the_stage = stage();
  return &the_stage;
}
