// A block per row, reduced through shared memory: exercise 02.2.
#include "02_fused_block/exercise/two_level_reduction/solution.cu"
