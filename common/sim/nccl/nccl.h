// The types of NCCL's interface in C, as far as it is simulated. Programs have NVIDIA's header.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

extern "C" {

struct ncclComm;
struct ncclUniqueId {
  char internal[128];  // NOLINT(modernize-avoid-c-arrays)
};
enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
};
enum ncclRedOp_t : int { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };
enum ncclDataType_t : int {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
};

// ---- Data that kernels need from the host
struct ncclWindow_vidmem;
struct ncclDevCommRequirements;
struct ncclDevComm;
struct ncclTeam {
  int nRanks, rank, stride;
};
struct ncclLsaBarrierHandle {
  std::uint32_t bufHandle;
  int nBarriers;
};
struct ncclDevResourceRequirements;

}  // extern "C"
