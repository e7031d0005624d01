# In a folder that was configured before, CUDAARCHS is no variable of CMake's yet.
include(${CMAKE_CURRENT_LIST_DIR}/../tools/cuda_architectures.cmake)
message("compiled for: ${CMAKE_CUDA_ARCHITECTURES}")
