# Which GPUs to compile for, where the user names none (-DCMAKE_CUDA_ARCHITECTURES=... or CUDAARCHS):
# the GPUs that are present; without one, PTX alone: the simulator needs no more, it halves the time of the
# first build, and a driver compiles it for GPUs from 9.0 on. `./run` and `./test` compile anew when they find a GPU
# later (built_without_gpu). Included before project(), because CMake checks the compiler with these architectures.
if(DEFINED ENV{CUDAARCHS} AND NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  # CMake by itself looks at it in a new folder alone, and in one that was configured before there would be no architecture.
  set(CMAKE_CUDA_ARCHITECTURES "$ENV{CUDAARCHS}" CACHE STRING "CUDA architectures")
  unset(built_without_gpu CACHE)
endif()
if(DEFINED CMAKE_CUDA_ARCHITECTURES)
  return()
endif()

find_program(nvidia_smi nvidia-smi NO_CACHE)
if(nvidia_smi)
  execute_process(
    COMMAND ${nvidia_smi} --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE compute_capabilities
    RESULT_VARIABLE nvidia_smi_result
    ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(nvidia_smi_result EQUAL 0)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" present "${compute_capabilities}")
    list(TRANSFORM present REPLACE "\\." "")
    list(REMOVE_DUPLICATES present)
  endif()
endif()

if(present)
  set(CMAKE_CUDA_ARCHITECTURES ${present})
  set(built_without_gpu OFF CACHE INTERNAL "no GPU was found when this folder was configured")
else()
  set(CMAKE_CUDA_ARCHITECTURES 90-virtual)
  set(built_without_gpu ON CACHE INTERNAL "no GPU was found when this folder was configured")
endif()
message(STATUS "Compiling for CUDA architectures: ${CMAKE_CUDA_ARCHITECTURES}")
