// NCCL's interface in C, as far as it is simulated.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
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

ncclResult_t ncclGetVersion(int* version);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitAll(ncclComm** comms, int count, const int* devices);
ncclResult_t ncclCommInitRank(ncclComm** comm, int ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm** comm, int ranks, ncclUniqueId id, int rank, void* config);
ncclResult_t ncclCommFinalize(ncclComm* comm);
ncclResult_t ncclCommDestroy(ncclComm* comm);
ncclResult_t ncclCommAbort(ncclComm* comm);
ncclResult_t ncclCommCount(const ncclComm* comm, int* count);
ncclResult_t ncclCommUserRank(const ncclComm* comm, int* rank);
ncclResult_t ncclCommCuDevice(const ncclComm* comm, int* device);
ncclResult_t ncclCommGetAsyncError(const ncclComm* comm, ncclResult_t* error);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(const ncclComm* comm);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm* comm, cudaStream_t stream);
ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t reduction, int root, ncclComm* comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm* comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclComm* comm,
                           cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm* comm, cudaStream_t stream);
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm* comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm* comm,
                      cudaStream_t stream);

// ---- Memory of which all ranks know, and what kernels need of the host
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

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes);
ncclResult_t ncclMemFree(void* memory);
ncclResult_t ncclCommWindowRegister(ncclComm* comm, void* memory, std::size_t bytes,
                                    ncclWindow_vidmem** window, int flags);
ncclResult_t ncclCommWindowDeregister(ncclComm* comm, ncclWindow_vidmem* window);
ncclResult_t ncclDevCommCreate(ncclComm* comm, const ncclDevCommRequirements* wanted, ncclDevComm* made);
ncclResult_t ncclDevCommDestroy(ncclComm* comm, const ncclDevComm* made);
ncclTeam ncclTeamWorld(ncclComm* comm);
ncclTeam ncclTeamLsa(ncclComm* comm);
ncclTeam ncclTeamRail(ncclComm* comm);
int ncclTeamRankToWorld(ncclComm* comm, ncclTeam team, int rank);
int ncclTeamRankToLsa(ncclComm* comm, ncclTeam team, int rank);
ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam team, int barriers, ncclLsaBarrierHandle* handle,
                                             ncclDevResourceRequirements* wanted);

}  // extern "C"
#pragma GCC visibility pop
