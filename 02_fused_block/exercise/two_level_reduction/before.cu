// The tree of exercise 02.1: a barrier in each step.
#include "02_fused_block/exercise/two_bugs/solution.cu"
