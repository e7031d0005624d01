// In the place of the driver's library, for programs that ask for it under the simulator: says why there is none. One that
// is linked with the static runtime would otherwise only hear that "the CUDA driver version is insufficient", and one that
// calls the driver itself would not get beyond the dynamic linker.
#include <dlfcn.h>
#include <sys/auxv.h>

#include <cstdio>
#include <string>
#include <string_view>

// CUDA's header is not included: it declares these functions with their parameters.
namespace {

constexpr int no_device = 100;      // CUDA_ERROR_NO_DEVICE
constexpr int not_supported = 801;  // CUDA_ERROR_NOT_SUPPORTED

/// Says only the first of what there is to be said: the rest follows from it.
void say(const std::string& text) {
  static const bool said = [&] {
    std::fflush(stdout);
    std::fputs(("simulator: " + text + "\n").c_str(), stderr);
    return true;
  }();
  (void)said;
}

int say_unsimulated(const char* name) {
  say(std::string(name) +
      " is a function of the driver (libcuda.so.1), which is not simulated; those of the runtime are, as "
      "cudaMalloc "
      "and <<< >>>: use them in its place");
  return not_supported;
}

/// Of whoever wants the driver without being linked with it: a static runtime. Empty: it is in the executable.
std::string library_that_asks;

/// In the place of every function of the driver, for a static runtime.
int say_that_there_is_none() {
  if (library_that_asks.empty()) {
    say("the driver (libcuda.so.1) is not simulated. An executable that is linked with the static runtime, "
        "as nvcc "
        "does by default, needs it: compile with -cudart shared");
  } else {
    say(library_that_asks +
        " needs the driver (libcuda.so.1), which is not simulated: NVIDIA's libraries of kernels, as cuBLAS, "
        "cannot run. "
        "Use a kernel of your own in its place; if this is a library of yours, link it with -cudart shared");
  }
  return no_device;
}

/// The name of the library that holds the address; empty for the executable.
std::string library_of(const void* address) {
  Dl_info here{};
  Dl_info executable{};
  const auto* entry =
      reinterpret_cast<const void*>(getauxval(AT_ENTRY));  // NOLINT(performance-no-int-to-ptr)
  if (dladdr(address, &here) == 0 || dladdr(entry, &executable) == 0) return "";
  if (here.dli_fbase == executable.dli_fbase) return "";
  const std::string path = here.dli_fname;
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  constexpr int newest = 99'000;  // no runtime finds it too old before it calls cuInit
  if (version != nullptr) *version = newest;
  return 0;
}
// Programs print what these give when another function has failed.
int cuGetErrorName(int error, const char** name) {
  if (name == nullptr) return 1;
  *name = error == 0 ? "CUDA_SUCCESS" : "CUDA_ERROR_NOT_SUPPORTED";
  return 0;
}
int cuGetErrorString(int error, const char** text) {
  if (text == nullptr) return 1;
  *text = error == 0 ? "no error" : "operation not supported";
  return 0;
}

/// By which the runtime finds all others.
int cuGetProcAddress_v2(const char* name, void** function, int /*version*/, unsigned long long /*flags*/,
                        int* status) {
  library_that_asks = library_of(__builtin_return_address(0));
  const bool is_version = std::string_view(name) == "cuDriverGetVersion";
  *function = is_version ? reinterpret_cast<void*>(&cuDriverGetVersion)
                         : reinterpret_cast<void*>(&say_that_there_is_none);
  if (status != nullptr) *status = 0;
  return 0;
}

// Those that programs call themselves.
#define UNSIMULATED(name)          \
  int name() {                     \
    return say_unsimulated(#name); \
  }

// clang-format off
UNSIMULATED(cuArray3DCreate) UNSIMULATED(cuArray3DCreate_v2) UNSIMULATED(cuArray3DGetDescriptor)
UNSIMULATED(cuArray3DGetDescriptor_v2) UNSIMULATED(cuArrayCreate) UNSIMULATED(cuArrayCreate_v2)
UNSIMULATED(cuArrayDestroy) UNSIMULATED(cuArrayGetDescriptor) UNSIMULATED(cuArrayGetDescriptor_v2)
UNSIMULATED(cuArrayGetMemoryRequirements) UNSIMULATED(cuArrayGetPlane) UNSIMULATED(cuArrayGetSparseProperties)
UNSIMULATED(cuCheckpointProcessCheckpoint) UNSIMULATED(cuCheckpointProcessGetRestoreThreadId)
UNSIMULATED(cuCheckpointProcessGetState) UNSIMULATED(cuCheckpointProcessLock)
UNSIMULATED(cuCheckpointProcessRestore) UNSIMULATED(cuCheckpointProcessUnlock) UNSIMULATED(cuCoredumpGetAttribute)
UNSIMULATED(cuCoredumpGetAttributeGlobal) UNSIMULATED(cuCoredumpSetAttribute)
UNSIMULATED(cuCoredumpSetAttributeGlobal) UNSIMULATED(cuCtxAttach) UNSIMULATED(cuCtxCreate)
UNSIMULATED(cuCtxCreate_v2) UNSIMULATED(cuCtxCreate_v3) UNSIMULATED(cuCtxCreate_v4) UNSIMULATED(cuCtxDestroy)
UNSIMULATED(cuCtxDestroy_v2) UNSIMULATED(cuCtxDetach) UNSIMULATED(cuCtxDisablePeerAccess)
UNSIMULATED(cuCtxEnablePeerAccess) UNSIMULATED(cuCtxFromGreenCtx) UNSIMULATED(cuCtxGetApiVersion)
UNSIMULATED(cuCtxGetCacheConfig) UNSIMULATED(cuCtxGetCurrent) UNSIMULATED(cuCtxGetDevResource)
UNSIMULATED(cuCtxGetDevice) UNSIMULATED(cuCtxGetDevice_v2) UNSIMULATED(cuCtxGetExecAffinity)
UNSIMULATED(cuCtxGetFlags) UNSIMULATED(cuCtxGetId) UNSIMULATED(cuCtxGetLimit) UNSIMULATED(cuCtxGetSharedMemConfig)
UNSIMULATED(cuCtxGetStreamPriorityRange) UNSIMULATED(cuCtxPopCurrent) UNSIMULATED(cuCtxPopCurrent_v2)
UNSIMULATED(cuCtxPushCurrent) UNSIMULATED(cuCtxPushCurrent_v2) UNSIMULATED(cuCtxRecordEvent)
UNSIMULATED(cuCtxResetPersistingL2Cache) UNSIMULATED(cuCtxSetCacheConfig) UNSIMULATED(cuCtxSetCurrent)
UNSIMULATED(cuCtxSetFlags) UNSIMULATED(cuCtxSetLimit) UNSIMULATED(cuCtxSetSharedMemConfig)
UNSIMULATED(cuCtxSynchronize) UNSIMULATED(cuCtxSynchronize_v2) UNSIMULATED(cuCtxWaitEvent)
UNSIMULATED(cuDestroyExternalMemory) UNSIMULATED(cuDestroyExternalSemaphore) UNSIMULATED(cuDevResourceGenerateDesc)
UNSIMULATED(cuDevSmResourceSplitByCount) UNSIMULATED(cuDeviceCanAccessPeer) UNSIMULATED(cuDeviceComputeCapability)
UNSIMULATED(cuDeviceGet) UNSIMULATED(cuDeviceGetAttribute) UNSIMULATED(cuDeviceGetByPCIBusId)
UNSIMULATED(cuDeviceGetCount) UNSIMULATED(cuDeviceGetDefaultMemPool) UNSIMULATED(cuDeviceGetDevResource)
UNSIMULATED(cuDeviceGetExecAffinitySupport) UNSIMULATED(cuDeviceGetGraphMemAttribute)
UNSIMULATED(cuDeviceGetHostAtomicCapabilities) UNSIMULATED(cuDeviceGetLuid) UNSIMULATED(cuDeviceGetMemPool)
UNSIMULATED(cuDeviceGetName) UNSIMULATED(cuDeviceGetNvSciSyncAttributes)
UNSIMULATED(cuDeviceGetP2PAtomicCapabilities) UNSIMULATED(cuDeviceGetP2PAttribute) UNSIMULATED(cuDeviceGetPCIBusId)
UNSIMULATED(cuDeviceGetProperties) UNSIMULATED(cuDeviceGetTexture1DLinearMaxWidth) UNSIMULATED(cuDeviceGetUuid)
UNSIMULATED(cuDeviceGetUuid_v2) UNSIMULATED(cuDeviceGraphMemTrim) UNSIMULATED(cuDevicePrimaryCtxGetState)
UNSIMULATED(cuDevicePrimaryCtxRelease) UNSIMULATED(cuDevicePrimaryCtxRelease_v2)
UNSIMULATED(cuDevicePrimaryCtxReset) UNSIMULATED(cuDevicePrimaryCtxReset_v2) UNSIMULATED(cuDevicePrimaryCtxRetain)
UNSIMULATED(cuDevicePrimaryCtxSetFlags) UNSIMULATED(cuDevicePrimaryCtxSetFlags_v2)
UNSIMULATED(cuDeviceRegisterAsyncNotification) UNSIMULATED(cuDeviceSetGraphMemAttribute)
UNSIMULATED(cuDeviceSetMemPool) UNSIMULATED(cuDeviceTotalMem) UNSIMULATED(cuDeviceTotalMem_v2)
UNSIMULATED(cuDeviceUnregisterAsyncNotification) UNSIMULATED(cuEventCreate) UNSIMULATED(cuEventDestroy)
UNSIMULATED(cuEventDestroy_v2) UNSIMULATED(cuEventElapsedTime) UNSIMULATED(cuEventElapsedTime_v2)
UNSIMULATED(cuEventQuery) UNSIMULATED(cuEventRecord) UNSIMULATED(cuEventRecordWithFlags)
UNSIMULATED(cuEventRecordWithFlags_ptsz) UNSIMULATED(cuEventRecord_ptsz) UNSIMULATED(cuEventSynchronize)
UNSIMULATED(cuExternalMemoryGetMappedBuffer) UNSIMULATED(cuExternalMemoryGetMappedMipmappedArray)
UNSIMULATED(cuFlushGPUDirectRDMAWrites) UNSIMULATED(cuFuncGetAttribute) UNSIMULATED(cuFuncGetModule)
UNSIMULATED(cuFuncGetName) UNSIMULATED(cuFuncGetParamInfo) UNSIMULATED(cuFuncIsLoaded) UNSIMULATED(cuFuncLoad)
UNSIMULATED(cuFuncSetAttribute) UNSIMULATED(cuFuncSetBlockShape) UNSIMULATED(cuFuncSetCacheConfig)
UNSIMULATED(cuFuncSetSharedMemConfig) UNSIMULATED(cuFuncSetSharedSize) UNSIMULATED(cuGetExportTable)
UNSIMULATED(cuGetProcAddress) UNSIMULATED(cuGraphAddBatchMemOpNode) UNSIMULATED(cuGraphAddChildGraphNode)
UNSIMULATED(cuGraphAddDependencies) UNSIMULATED(cuGraphAddDependencies_v2) UNSIMULATED(cuGraphAddEmptyNode)
UNSIMULATED(cuGraphAddEventRecordNode) UNSIMULATED(cuGraphAddEventWaitNode)
UNSIMULATED(cuGraphAddExternalSemaphoresSignalNode) UNSIMULATED(cuGraphAddExternalSemaphoresWaitNode)
UNSIMULATED(cuGraphAddHostNode) UNSIMULATED(cuGraphAddKernelNode) UNSIMULATED(cuGraphAddKernelNode_v2)
UNSIMULATED(cuGraphAddMemAllocNode) UNSIMULATED(cuGraphAddMemFreeNode) UNSIMULATED(cuGraphAddMemcpyNode)
UNSIMULATED(cuGraphAddMemsetNode) UNSIMULATED(cuGraphAddNode) UNSIMULATED(cuGraphAddNode_v2)
UNSIMULATED(cuGraphBatchMemOpNodeGetParams) UNSIMULATED(cuGraphBatchMemOpNodeSetParams)
UNSIMULATED(cuGraphChildGraphNodeGetGraph) UNSIMULATED(cuGraphClone) UNSIMULATED(cuGraphConditionalHandleCreate)
UNSIMULATED(cuGraphCreate) UNSIMULATED(cuGraphDebugDotPrint) UNSIMULATED(cuGraphDestroy)
UNSIMULATED(cuGraphDestroyNode) UNSIMULATED(cuGraphEventRecordNodeGetEvent)
UNSIMULATED(cuGraphEventRecordNodeSetEvent) UNSIMULATED(cuGraphEventWaitNodeGetEvent)
UNSIMULATED(cuGraphEventWaitNodeSetEvent) UNSIMULATED(cuGraphExecBatchMemOpNodeSetParams)
UNSIMULATED(cuGraphExecChildGraphNodeSetParams) UNSIMULATED(cuGraphExecDestroy)
UNSIMULATED(cuGraphExecEventRecordNodeSetEvent) UNSIMULATED(cuGraphExecEventWaitNodeSetEvent)
UNSIMULATED(cuGraphExecExternalSemaphoresSignalNodeSetParams)
UNSIMULATED(cuGraphExecExternalSemaphoresWaitNodeSetParams) UNSIMULATED(cuGraphExecGetFlags)
UNSIMULATED(cuGraphExecHostNodeSetParams) UNSIMULATED(cuGraphExecKernelNodeSetParams)
UNSIMULATED(cuGraphExecKernelNodeSetParams_v2) UNSIMULATED(cuGraphExecMemcpyNodeSetParams)
UNSIMULATED(cuGraphExecMemsetNodeSetParams) UNSIMULATED(cuGraphExecNodeSetParams) UNSIMULATED(cuGraphExecUpdate)
UNSIMULATED(cuGraphExecUpdate_v2) UNSIMULATED(cuGraphExternalSemaphoresSignalNodeGetParams)
UNSIMULATED(cuGraphExternalSemaphoresSignalNodeSetParams) UNSIMULATED(cuGraphExternalSemaphoresWaitNodeGetParams)
UNSIMULATED(cuGraphExternalSemaphoresWaitNodeSetParams) UNSIMULATED(cuGraphGetEdges) UNSIMULATED(cuGraphGetEdges_v2)
UNSIMULATED(cuGraphGetNodes) UNSIMULATED(cuGraphGetRootNodes) UNSIMULATED(cuGraphHostNodeGetParams)
UNSIMULATED(cuGraphHostNodeSetParams) UNSIMULATED(cuGraphInstantiate) UNSIMULATED(cuGraphInstantiateWithFlags)
UNSIMULATED(cuGraphInstantiateWithParams) UNSIMULATED(cuGraphInstantiateWithParams_ptsz)
UNSIMULATED(cuGraphInstantiate_v2) UNSIMULATED(cuGraphKernelNodeCopyAttributes)
UNSIMULATED(cuGraphKernelNodeGetAttribute) UNSIMULATED(cuGraphKernelNodeGetParams)
UNSIMULATED(cuGraphKernelNodeGetParams_v2) UNSIMULATED(cuGraphKernelNodeSetAttribute)
UNSIMULATED(cuGraphKernelNodeSetParams) UNSIMULATED(cuGraphKernelNodeSetParams_v2) UNSIMULATED(cuGraphLaunch)
UNSIMULATED(cuGraphLaunch_ptsz) UNSIMULATED(cuGraphMemAllocNodeGetParams) UNSIMULATED(cuGraphMemFreeNodeGetParams)
UNSIMULATED(cuGraphMemcpyNodeGetParams) UNSIMULATED(cuGraphMemcpyNodeSetParams)
UNSIMULATED(cuGraphMemsetNodeGetParams) UNSIMULATED(cuGraphMemsetNodeSetParams) UNSIMULATED(cuGraphNodeFindInClone)
UNSIMULATED(cuGraphNodeGetDependencies) UNSIMULATED(cuGraphNodeGetDependencies_v2)
UNSIMULATED(cuGraphNodeGetDependentNodes) UNSIMULATED(cuGraphNodeGetDependentNodes_v2)
UNSIMULATED(cuGraphNodeGetEnabled) UNSIMULATED(cuGraphNodeGetType) UNSIMULATED(cuGraphNodeSetEnabled)
UNSIMULATED(cuGraphNodeSetParams) UNSIMULATED(cuGraphReleaseUserObject) UNSIMULATED(cuGraphRemoveDependencies)
UNSIMULATED(cuGraphRemoveDependencies_v2) UNSIMULATED(cuGraphRetainUserObject) UNSIMULATED(cuGraphUpload)
UNSIMULATED(cuGraphUpload_ptsz) UNSIMULATED(cuGraphicsMapResources) UNSIMULATED(cuGraphicsMapResources_ptsz)
UNSIMULATED(cuGraphicsResourceGetMappedMipmappedArray) UNSIMULATED(cuGraphicsResourceGetMappedPointer)
UNSIMULATED(cuGraphicsResourceGetMappedPointer_v2) UNSIMULATED(cuGraphicsResourceSetMapFlags)
UNSIMULATED(cuGraphicsResourceSetMapFlags_v2) UNSIMULATED(cuGraphicsSubResourceGetMappedArray)
UNSIMULATED(cuGraphicsUnmapResources) UNSIMULATED(cuGraphicsUnmapResources_ptsz)
UNSIMULATED(cuGraphicsUnregisterResource) UNSIMULATED(cuGreenCtxCreate) UNSIMULATED(cuGreenCtxDestroy)
UNSIMULATED(cuGreenCtxGetDevResource) UNSIMULATED(cuGreenCtxGetId) UNSIMULATED(cuGreenCtxRecordEvent)
UNSIMULATED(cuGreenCtxStreamCreate) UNSIMULATED(cuGreenCtxWaitEvent) UNSIMULATED(cuImportExternalMemory)
UNSIMULATED(cuImportExternalSemaphore) UNSIMULATED(cuInit) UNSIMULATED(cuIpcCloseMemHandle)
UNSIMULATED(cuIpcGetEventHandle) UNSIMULATED(cuIpcGetMemHandle) UNSIMULATED(cuIpcOpenEventHandle)
UNSIMULATED(cuIpcOpenMemHandle) UNSIMULATED(cuIpcOpenMemHandle_v2) UNSIMULATED(cuKernelGetAttribute)
UNSIMULATED(cuKernelGetFunction) UNSIMULATED(cuKernelGetLibrary) UNSIMULATED(cuKernelGetName)
UNSIMULATED(cuKernelGetParamInfo) UNSIMULATED(cuKernelSetAttribute) UNSIMULATED(cuKernelSetCacheConfig)
UNSIMULATED(cuLaunch) UNSIMULATED(cuLaunchCooperativeKernel) UNSIMULATED(cuLaunchCooperativeKernelMultiDevice)
UNSIMULATED(cuLaunchCooperativeKernel_ptsz) UNSIMULATED(cuLaunchGrid) UNSIMULATED(cuLaunchGridAsync)
UNSIMULATED(cuLaunchHostFunc) UNSIMULATED(cuLaunchHostFunc_ptsz) UNSIMULATED(cuLaunchKernel)
UNSIMULATED(cuLaunchKernelEx) UNSIMULATED(cuLaunchKernelEx_ptsz) UNSIMULATED(cuLaunchKernel_ptsz)
UNSIMULATED(cuLibraryEnumerateKernels) UNSIMULATED(cuLibraryGetGlobal) UNSIMULATED(cuLibraryGetKernel)
UNSIMULATED(cuLibraryGetKernelCount) UNSIMULATED(cuLibraryGetManaged) UNSIMULATED(cuLibraryGetModule)
UNSIMULATED(cuLibraryGetUnifiedFunction) UNSIMULATED(cuLibraryLoadData) UNSIMULATED(cuLibraryLoadFromFile)
UNSIMULATED(cuLibraryUnload) UNSIMULATED(cuLinkAddData) UNSIMULATED(cuLinkAddData_v2) UNSIMULATED(cuLinkAddFile)
UNSIMULATED(cuLinkAddFile_v2) UNSIMULATED(cuLinkComplete) UNSIMULATED(cuLinkCreate) UNSIMULATED(cuLinkCreate_v2)
UNSIMULATED(cuLinkDestroy) UNSIMULATED(cuLogsCurrent) UNSIMULATED(cuLogsDumpToFile) UNSIMULATED(cuLogsDumpToMemory)
UNSIMULATED(cuLogsRegisterCallback) UNSIMULATED(cuLogsUnregisterCallback) UNSIMULATED(cuMemAddressFree)
UNSIMULATED(cuMemAddressReserve) UNSIMULATED(cuMemAdvise) UNSIMULATED(cuMemAdvise_v2) UNSIMULATED(cuMemAlloc)
UNSIMULATED(cuMemAllocAsync) UNSIMULATED(cuMemAllocAsync_ptsz) UNSIMULATED(cuMemAllocFromPoolAsync)
UNSIMULATED(cuMemAllocFromPoolAsync_ptsz) UNSIMULATED(cuMemAllocHost) UNSIMULATED(cuMemAllocHost_v2)
UNSIMULATED(cuMemAllocManaged) UNSIMULATED(cuMemAllocPitch) UNSIMULATED(cuMemAllocPitch_v2)
UNSIMULATED(cuMemAlloc_v2) UNSIMULATED(cuMemBatchDecompressAsync) UNSIMULATED(cuMemBatchDecompressAsync_ptsz)
UNSIMULATED(cuMemCreate) UNSIMULATED(cuMemDiscardAndPrefetchBatchAsync)
UNSIMULATED(cuMemDiscardAndPrefetchBatchAsync_ptsz) UNSIMULATED(cuMemDiscardBatchAsync)
UNSIMULATED(cuMemDiscardBatchAsync_ptsz) UNSIMULATED(cuMemExportToShareableHandle) UNSIMULATED(cuMemFree)
UNSIMULATED(cuMemFreeAsync) UNSIMULATED(cuMemFreeAsync_ptsz) UNSIMULATED(cuMemFreeHost) UNSIMULATED(cuMemFree_v2)
UNSIMULATED(cuMemGetAccess) UNSIMULATED(cuMemGetAddressRange) UNSIMULATED(cuMemGetAddressRange_v2)
UNSIMULATED(cuMemGetAllocationGranularity) UNSIMULATED(cuMemGetAllocationPropertiesFromHandle)
UNSIMULATED(cuMemGetDefaultMemPool) UNSIMULATED(cuMemGetHandleForAddressRange) UNSIMULATED(cuMemGetInfo)
UNSIMULATED(cuMemGetInfo_v2) UNSIMULATED(cuMemGetMemPool) UNSIMULATED(cuMemHostAlloc)
UNSIMULATED(cuMemHostGetDevicePointer) UNSIMULATED(cuMemHostGetDevicePointer_v2) UNSIMULATED(cuMemHostGetFlags)
UNSIMULATED(cuMemHostRegister) UNSIMULATED(cuMemHostRegister_v2) UNSIMULATED(cuMemHostUnregister)
UNSIMULATED(cuMemImportFromShareableHandle) UNSIMULATED(cuMemMap) UNSIMULATED(cuMemMapArrayAsync)
UNSIMULATED(cuMemMapArrayAsync_ptsz) UNSIMULATED(cuMemPoolCreate) UNSIMULATED(cuMemPoolDestroy)
UNSIMULATED(cuMemPoolExportPointer) UNSIMULATED(cuMemPoolExportToShareableHandle) UNSIMULATED(cuMemPoolGetAccess)
UNSIMULATED(cuMemPoolGetAttribute) UNSIMULATED(cuMemPoolImportFromShareableHandle)
UNSIMULATED(cuMemPoolImportPointer) UNSIMULATED(cuMemPoolSetAccess) UNSIMULATED(cuMemPoolSetAttribute)
UNSIMULATED(cuMemPoolTrimTo) UNSIMULATED(cuMemPrefetchAsync) UNSIMULATED(cuMemPrefetchAsync_ptsz)
UNSIMULATED(cuMemPrefetchAsync_v2) UNSIMULATED(cuMemPrefetchAsync_v2_ptsz) UNSIMULATED(cuMemPrefetchBatchAsync)
UNSIMULATED(cuMemPrefetchBatchAsync_ptsz) UNSIMULATED(cuMemRangeGetAttribute) UNSIMULATED(cuMemRangeGetAttributes)
UNSIMULATED(cuMemRelease) UNSIMULATED(cuMemRetainAllocationHandle) UNSIMULATED(cuMemSetAccess)
UNSIMULATED(cuMemSetMemPool) UNSIMULATED(cuMemUnmap) UNSIMULATED(cuMemcpy) UNSIMULATED(cuMemcpy2D)
UNSIMULATED(cuMemcpy2DAsync) UNSIMULATED(cuMemcpy2DAsync_v2) UNSIMULATED(cuMemcpy2DAsync_v2_ptsz)
UNSIMULATED(cuMemcpy2DUnaligned) UNSIMULATED(cuMemcpy2DUnaligned_v2) UNSIMULATED(cuMemcpy2DUnaligned_v2_ptds)
UNSIMULATED(cuMemcpy2D_v2) UNSIMULATED(cuMemcpy2D_v2_ptds) UNSIMULATED(cuMemcpy3D) UNSIMULATED(cuMemcpy3DAsync)
UNSIMULATED(cuMemcpy3DAsync_v2) UNSIMULATED(cuMemcpy3DAsync_v2_ptsz) UNSIMULATED(cuMemcpy3DBatchAsync)
UNSIMULATED(cuMemcpy3DBatchAsync_ptsz) UNSIMULATED(cuMemcpy3DBatchAsync_v2)
UNSIMULATED(cuMemcpy3DBatchAsync_v2_ptsz) UNSIMULATED(cuMemcpy3DPeer) UNSIMULATED(cuMemcpy3DPeerAsync)
UNSIMULATED(cuMemcpy3DPeerAsync_ptsz) UNSIMULATED(cuMemcpy3DPeer_ptds) UNSIMULATED(cuMemcpy3D_v2)
UNSIMULATED(cuMemcpy3D_v2_ptds) UNSIMULATED(cuMemcpyAsync) UNSIMULATED(cuMemcpyAsync_ptsz) UNSIMULATED(cuMemcpyAtoA)
UNSIMULATED(cuMemcpyAtoA_v2) UNSIMULATED(cuMemcpyAtoA_v2_ptds) UNSIMULATED(cuMemcpyAtoD)
UNSIMULATED(cuMemcpyAtoD_v2) UNSIMULATED(cuMemcpyAtoD_v2_ptds) UNSIMULATED(cuMemcpyAtoH)
UNSIMULATED(cuMemcpyAtoHAsync) UNSIMULATED(cuMemcpyAtoHAsync_v2) UNSIMULATED(cuMemcpyAtoHAsync_v2_ptsz)
UNSIMULATED(cuMemcpyAtoH_v2) UNSIMULATED(cuMemcpyAtoH_v2_ptds) UNSIMULATED(cuMemcpyBatchAsync)
UNSIMULATED(cuMemcpyBatchAsync_ptsz) UNSIMULATED(cuMemcpyBatchAsync_v2) UNSIMULATED(cuMemcpyBatchAsync_v2_ptsz)
UNSIMULATED(cuMemcpyDtoA) UNSIMULATED(cuMemcpyDtoA_v2) UNSIMULATED(cuMemcpyDtoA_v2_ptds) UNSIMULATED(cuMemcpyDtoD)
UNSIMULATED(cuMemcpyDtoDAsync) UNSIMULATED(cuMemcpyDtoDAsync_v2) UNSIMULATED(cuMemcpyDtoDAsync_v2_ptsz)
UNSIMULATED(cuMemcpyDtoD_v2) UNSIMULATED(cuMemcpyDtoD_v2_ptds) UNSIMULATED(cuMemcpyDtoH)
UNSIMULATED(cuMemcpyDtoHAsync) UNSIMULATED(cuMemcpyDtoHAsync_v2) UNSIMULATED(cuMemcpyDtoHAsync_v2_ptsz)
UNSIMULATED(cuMemcpyDtoH_v2) UNSIMULATED(cuMemcpyDtoH_v2_ptds) UNSIMULATED(cuMemcpyHtoA)
UNSIMULATED(cuMemcpyHtoAAsync) UNSIMULATED(cuMemcpyHtoAAsync_v2) UNSIMULATED(cuMemcpyHtoAAsync_v2_ptsz)
UNSIMULATED(cuMemcpyHtoA_v2) UNSIMULATED(cuMemcpyHtoA_v2_ptds) UNSIMULATED(cuMemcpyHtoD)
UNSIMULATED(cuMemcpyHtoDAsync) UNSIMULATED(cuMemcpyHtoDAsync_v2) UNSIMULATED(cuMemcpyHtoDAsync_v2_ptsz)
UNSIMULATED(cuMemcpyHtoD_v2) UNSIMULATED(cuMemcpyHtoD_v2_ptds) UNSIMULATED(cuMemcpyPeer)
UNSIMULATED(cuMemcpyPeerAsync) UNSIMULATED(cuMemcpyPeerAsync_ptsz) UNSIMULATED(cuMemcpyPeer_ptds)
UNSIMULATED(cuMemcpy_ptds) UNSIMULATED(cuMemsetD16) UNSIMULATED(cuMemsetD16Async) UNSIMULATED(cuMemsetD16Async_ptsz)
UNSIMULATED(cuMemsetD16_v2) UNSIMULATED(cuMemsetD16_v2_ptds) UNSIMULATED(cuMemsetD2D16)
UNSIMULATED(cuMemsetD2D16Async) UNSIMULATED(cuMemsetD2D16Async_ptsz) UNSIMULATED(cuMemsetD2D16_v2)
UNSIMULATED(cuMemsetD2D16_v2_ptds) UNSIMULATED(cuMemsetD2D32) UNSIMULATED(cuMemsetD2D32Async)
UNSIMULATED(cuMemsetD2D32Async_ptsz) UNSIMULATED(cuMemsetD2D32_v2) UNSIMULATED(cuMemsetD2D32_v2_ptds)
UNSIMULATED(cuMemsetD2D8) UNSIMULATED(cuMemsetD2D8Async) UNSIMULATED(cuMemsetD2D8Async_ptsz)
UNSIMULATED(cuMemsetD2D8_v2) UNSIMULATED(cuMemsetD2D8_v2_ptds) UNSIMULATED(cuMemsetD32)
UNSIMULATED(cuMemsetD32Async) UNSIMULATED(cuMemsetD32Async_ptsz) UNSIMULATED(cuMemsetD32_v2)
UNSIMULATED(cuMemsetD32_v2_ptds) UNSIMULATED(cuMemsetD8) UNSIMULATED(cuMemsetD8Async)
UNSIMULATED(cuMemsetD8Async_ptsz) UNSIMULATED(cuMemsetD8_v2) UNSIMULATED(cuMemsetD8_v2_ptds)
UNSIMULATED(cuMipmappedArrayCreate) UNSIMULATED(cuMipmappedArrayDestroy) UNSIMULATED(cuMipmappedArrayGetLevel)
UNSIMULATED(cuMipmappedArrayGetMemoryRequirements) UNSIMULATED(cuMipmappedArrayGetSparseProperties)
UNSIMULATED(cuModuleEnumerateFunctions) UNSIMULATED(cuModuleGetFunction) UNSIMULATED(cuModuleGetFunctionCount)
UNSIMULATED(cuModuleGetGlobal) UNSIMULATED(cuModuleGetGlobal_v2) UNSIMULATED(cuModuleGetLoadingMode)
UNSIMULATED(cuModuleGetSurfRef) UNSIMULATED(cuModuleGetTexRef) UNSIMULATED(cuModuleLoad)
UNSIMULATED(cuModuleLoadData) UNSIMULATED(cuModuleLoadDataEx) UNSIMULATED(cuModuleLoadFatBinary)
UNSIMULATED(cuModuleUnload) UNSIMULATED(cuMulticastAddDevice) UNSIMULATED(cuMulticastBindAddr)
UNSIMULATED(cuMulticastBindMem) UNSIMULATED(cuMulticastCreate) UNSIMULATED(cuMulticastGetGranularity)
UNSIMULATED(cuMulticastUnbind) UNSIMULATED(cuOccupancyAvailableDynamicSMemPerBlock)
UNSIMULATED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
UNSIMULATED(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) UNSIMULATED(cuOccupancyMaxActiveClusters)
UNSIMULATED(cuOccupancyMaxPotentialBlockSize) UNSIMULATED(cuOccupancyMaxPotentialBlockSizeWithFlags)
UNSIMULATED(cuOccupancyMaxPotentialClusterSize) UNSIMULATED(cuParamSetSize) UNSIMULATED(cuParamSetTexRef)
UNSIMULATED(cuParamSetf) UNSIMULATED(cuParamSeti) UNSIMULATED(cuParamSetv) UNSIMULATED(cuPointerGetAttribute)
UNSIMULATED(cuPointerGetAttributes) UNSIMULATED(cuPointerSetAttribute) UNSIMULATED(cuProfilerInitialize)
UNSIMULATED(cuProfilerStart) UNSIMULATED(cuProfilerStop) UNSIMULATED(cuSignalExternalSemaphoresAsync)
UNSIMULATED(cuSignalExternalSemaphoresAsync_ptsz) UNSIMULATED(cuStreamAddCallback)
UNSIMULATED(cuStreamAddCallback_ptsz) UNSIMULATED(cuStreamAttachMemAsync) UNSIMULATED(cuStreamAttachMemAsync_ptsz)
UNSIMULATED(cuStreamBatchMemOp) UNSIMULATED(cuStreamBatchMemOp_ptsz) UNSIMULATED(cuStreamBatchMemOp_v2)
UNSIMULATED(cuStreamBatchMemOp_v2_ptsz) UNSIMULATED(cuStreamBeginCapture) UNSIMULATED(cuStreamBeginCaptureToGraph)
UNSIMULATED(cuStreamBeginCaptureToGraph_ptsz) UNSIMULATED(cuStreamBeginCapture_ptsz)
UNSIMULATED(cuStreamBeginCapture_v2) UNSIMULATED(cuStreamBeginCapture_v2_ptsz) UNSIMULATED(cuStreamCopyAttributes)
UNSIMULATED(cuStreamCopyAttributes_ptsz) UNSIMULATED(cuStreamCreate) UNSIMULATED(cuStreamCreateWithPriority)
UNSIMULATED(cuStreamDestroy) UNSIMULATED(cuStreamDestroy_v2) UNSIMULATED(cuStreamEndCapture)
UNSIMULATED(cuStreamEndCapture_ptsz) UNSIMULATED(cuStreamGetAttribute) UNSIMULATED(cuStreamGetAttribute_ptsz)
UNSIMULATED(cuStreamGetCaptureInfo) UNSIMULATED(cuStreamGetCaptureInfo_ptsz) UNSIMULATED(cuStreamGetCaptureInfo_v2)
UNSIMULATED(cuStreamGetCaptureInfo_v2_ptsz) UNSIMULATED(cuStreamGetCaptureInfo_v3)
UNSIMULATED(cuStreamGetCaptureInfo_v3_ptsz) UNSIMULATED(cuStreamGetCtx) UNSIMULATED(cuStreamGetCtx_ptsz)
UNSIMULATED(cuStreamGetCtx_v2) UNSIMULATED(cuStreamGetCtx_v2_ptsz) UNSIMULATED(cuStreamGetDevice)
UNSIMULATED(cuStreamGetDevice_ptsz) UNSIMULATED(cuStreamGetFlags) UNSIMULATED(cuStreamGetFlags_ptsz)
UNSIMULATED(cuStreamGetGreenCtx) UNSIMULATED(cuStreamGetId) UNSIMULATED(cuStreamGetId_ptsz)
UNSIMULATED(cuStreamGetPriority) UNSIMULATED(cuStreamGetPriority_ptsz) UNSIMULATED(cuStreamIsCapturing)
UNSIMULATED(cuStreamIsCapturing_ptsz) UNSIMULATED(cuStreamQuery) UNSIMULATED(cuStreamQuery_ptsz)
UNSIMULATED(cuStreamSetAttribute) UNSIMULATED(cuStreamSetAttribute_ptsz) UNSIMULATED(cuStreamSynchronize)
UNSIMULATED(cuStreamSynchronize_ptsz) UNSIMULATED(cuStreamUpdateCaptureDependencies)
UNSIMULATED(cuStreamUpdateCaptureDependencies_ptsz) UNSIMULATED(cuStreamUpdateCaptureDependencies_v2)
UNSIMULATED(cuStreamUpdateCaptureDependencies_v2_ptsz) UNSIMULATED(cuStreamWaitEvent)
UNSIMULATED(cuStreamWaitEvent_ptsz) UNSIMULATED(cuStreamWaitValue32) UNSIMULATED(cuStreamWaitValue32_ptsz)
UNSIMULATED(cuStreamWaitValue32_v2) UNSIMULATED(cuStreamWaitValue32_v2_ptsz) UNSIMULATED(cuStreamWaitValue64)
UNSIMULATED(cuStreamWaitValue64_ptsz) UNSIMULATED(cuStreamWaitValue64_v2) UNSIMULATED(cuStreamWaitValue64_v2_ptsz)
UNSIMULATED(cuStreamWriteValue32) UNSIMULATED(cuStreamWriteValue32_ptsz) UNSIMULATED(cuStreamWriteValue32_v2)
UNSIMULATED(cuStreamWriteValue32_v2_ptsz) UNSIMULATED(cuStreamWriteValue64) UNSIMULATED(cuStreamWriteValue64_ptsz)
UNSIMULATED(cuStreamWriteValue64_v2) UNSIMULATED(cuStreamWriteValue64_v2_ptsz) UNSIMULATED(cuSurfObjectCreate)
UNSIMULATED(cuSurfObjectDestroy) UNSIMULATED(cuSurfObjectGetResourceDesc) UNSIMULATED(cuSurfRefGetArray)
UNSIMULATED(cuSurfRefSetArray) UNSIMULATED(cuTensorMapEncodeIm2col) UNSIMULATED(cuTensorMapEncodeIm2colWide)
UNSIMULATED(cuTensorMapEncodeTiled) UNSIMULATED(cuTensorMapReplaceAddress) UNSIMULATED(cuTexObjectCreate)
UNSIMULATED(cuTexObjectDestroy) UNSIMULATED(cuTexObjectGetResourceDesc) UNSIMULATED(cuTexObjectGetResourceViewDesc)
UNSIMULATED(cuTexObjectGetTextureDesc) UNSIMULATED(cuTexRefCreate) UNSIMULATED(cuTexRefDestroy)
UNSIMULATED(cuTexRefGetAddress) UNSIMULATED(cuTexRefGetAddressMode) UNSIMULATED(cuTexRefGetAddress_v2)
UNSIMULATED(cuTexRefGetArray) UNSIMULATED(cuTexRefGetBorderColor) UNSIMULATED(cuTexRefGetFilterMode)
UNSIMULATED(cuTexRefGetFlags) UNSIMULATED(cuTexRefGetFormat) UNSIMULATED(cuTexRefGetMaxAnisotropy)
UNSIMULATED(cuTexRefGetMipmapFilterMode) UNSIMULATED(cuTexRefGetMipmapLevelBias)
UNSIMULATED(cuTexRefGetMipmapLevelClamp) UNSIMULATED(cuTexRefGetMipmappedArray) UNSIMULATED(cuTexRefSetAddress)
UNSIMULATED(cuTexRefSetAddress2D) UNSIMULATED(cuTexRefSetAddress2D_v2) UNSIMULATED(cuTexRefSetAddress2D_v3)
UNSIMULATED(cuTexRefSetAddressMode) UNSIMULATED(cuTexRefSetAddress_v2) UNSIMULATED(cuTexRefSetArray)
UNSIMULATED(cuTexRefSetBorderColor) UNSIMULATED(cuTexRefSetFilterMode) UNSIMULATED(cuTexRefSetFlags)
UNSIMULATED(cuTexRefSetFormat) UNSIMULATED(cuTexRefSetMaxAnisotropy) UNSIMULATED(cuTexRefSetMipmapFilterMode)
UNSIMULATED(cuTexRefSetMipmapLevelBias) UNSIMULATED(cuTexRefSetMipmapLevelClamp)
UNSIMULATED(cuTexRefSetMipmappedArray) UNSIMULATED(cuThreadExchangeStreamCaptureMode)
UNSIMULATED(cuUserObjectCreate) UNSIMULATED(cuUserObjectRelease) UNSIMULATED(cuUserObjectRetain)
UNSIMULATED(cuWaitExternalSemaphoresAsync) UNSIMULATED(cuWaitExternalSemaphoresAsync_ptsz)
// clang-format on

}  // extern "C"
