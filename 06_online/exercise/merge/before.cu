// The maximum first, the sum afterwards: exercise 02.2.
#include "02_fused_block/exercise/two_level_reduction/solution.cu"
