// Errors: their names, and the last one.
//
// An error of a kernel does not stay, as it would on a device: it is returned by the launch and once more by
// cudaGetLastError, and then the program can go on.
#include <algorithm>
#include <array>
#include <utility>

#include "common/sim/runtime/runtime.h"

using sim::runtime;

namespace {

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr auto errors = std::to_array<ErrorText>({
#define ERROR_TEXT(error, text) {error, #error, text}
    ERROR_TEXT(cudaSuccess, "no error"),
    ERROR_TEXT(cudaErrorInvalidValue, "invalid argument"),
    ERROR_TEXT(cudaErrorMemoryAllocation, "out of memory"),
    ERROR_TEXT(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ERROR_TEXT(cudaErrorInvalidSymbol, "invalid device symbol"),
    ERROR_TEXT(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    ERROR_TEXT(cudaErrorMissingConfiguration, "__global__ function call is not configured"),
    ERROR_TEXT(cudaErrorInvalidDeviceFunction, "invalid device function"),
    ERROR_TEXT(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ERROR_TEXT(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR_TEXT(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"),
    ERROR_TEXT(cudaErrorInvalidPtx, "a PTX JIT compilation failed"),
    ERROR_TEXT(cudaErrorInvalidKernelImage, "device kernel image is invalid"),
    ERROR_TEXT(cudaErrorSymbolNotFound, "named symbol not found"),
    ERROR_TEXT(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ERROR_TEXT(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    ERROR_TEXT(cudaErrorNotReady, "device not ready"),
    ERROR_TEXT(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ERROR_TEXT(cudaErrorAssert, "device-side assert triggered"),
    ERROR_TEXT(cudaErrorIllegalInstruction, "an illegal instruction was encountered"),
    ERROR_TEXT(cudaErrorMisalignedAddress, "misaligned address"),
    ERROR_TEXT(cudaErrorLaunchFailure, "unspecified launch failure"),
    ERROR_TEXT(cudaErrorInvalidClusterSize, "cluster misconfiguration"),
    ERROR_TEXT(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
    ERROR_TEXT(cudaErrorNotSupported, "operation not supported"),
    ERROR_TEXT(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    ERROR_TEXT(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    ERROR_TEXT(cudaErrorStreamCaptureMerge,
               "operation would result in a merge of separate capture sequences"),
    ERROR_TEXT(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    ERROR_TEXT(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    ERROR_TEXT(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    ERROR_TEXT(cudaErrorStreamCaptureImplicit,
               "operation would make the legacy stream depend on a capturing blocking stream"),
    ERROR_TEXT(cudaErrorCapturedEvent,
               "operation not permitted on an event last recorded in a capturing stream"),
    ERROR_TEXT(cudaErrorGraphExecUpdateFailure,
               "the graph update was not performed because it included changes which violated constraints"),
    ERROR_TEXT(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    ERROR_TEXT(cudaErrorHostMemoryAlreadyRegistered,
               "part or all of the requested memory range is already mapped"),
    ERROR_TEXT(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    ERROR_TEXT(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    ERROR_TEXT(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    ERROR_TEXT(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    ERROR_TEXT(cudaErrorUnknown, "unknown error"),
#undef ERROR_TEXT
});

const ErrorText& text_of(cudaError_t error) {
  static constexpr ErrorText unknown{cudaErrorUnknown, "unrecognized error code", "unrecognized error code"};
  const auto* found = std::find_if(errors.begin(), errors.end(),
                                   [error](const ErrorText& known) { return known.error == error; });
  return found == errors.end() ? unknown : *found;
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  return text_of(error).name;
}
const char* cudaGetErrorString(cudaError_t error) {
  return text_of(error).text;
}
cudaError_t cudaGetLastError() {
  const std::lock_guard lock(runtime().mutex);
  runtime().unreported = cudaSuccess;
  return std::exchange(runtime().last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  const std::lock_guard lock(runtime().mutex);
  return runtime().last_error;
}

}  // extern "C"
