// A block per row: exercise 06.1.
#include "06_online/exercise/merge/solution.cu"
