/* The library's interface, for all languages that can call C: softmax.h is this in C++.

   Every function that returns int returns one of these codes. After any code except ROWWISE_OK, nothing was written, and
   rowwise_error() is one line about the mistake. softmax.h describes the arguments and the results. Any thread may
   call. */
#pragma once

/* NOLINTBEGIN(modernize-deprecated-headers,modernize-use-using): C knows neither */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ROWWISE_OK = 0, ROWWISE_BAD_ARGUMENT = 1, ROWWISE_CUDA_ERROR = 2 };

/* The version of the library that the program runs with: "0.1.0". Before 1.0 each minor version may change the interface. */
const char* rowwise_version(void);

/* The message of this thread's last call that failed; valid until the next that fails. */
const char* rowwise_error(void);

/* Which table of measured times chooses the kernels on the current device: "the table of NVIDIA H200, which is compiled in".
   The environment variable ROWWISE_TABLE names a file with another one, as ./run tune writes it; it is read once per device.
   NULL if there is none, and then rowwise_error() says why. */
const char* rowwise_table(void);

/* The type of the elements of a matrix. */
typedef enum { ROWWISE_F32 = 0, ROWWISE_F16 = 1, ROWWISE_BF16 = 2 } rowwise_dtype;

typedef enum {
  ROWWISE_SOFTMAX = 0,
  ROWWISE_LOG_SOFTMAX = 1,
  ROWWISE_SOFTMAX_BACKWARD = 2,
  ROWWISE_LOG_SOFTMAX_BACKWARD = 3,
  ROWWISE_CROSS_ENTROPY = 4,
  ROWWISE_CROSS_ENTROPY_GRADIENT = 5
} rowwise_operation;

int rowwise_workspace_bytes(rowwise_operation operation, rowwise_dtype dtype, int64_t rows, int64_t cols,
                            size_t* bytes);

/* workspace: null and 0 bytes, or of rowwise_workspace_bytes(), 0 before and after. stream: a cudaStream_t. */
int rowwise_softmax(rowwise_dtype dtype, const void* x, void* y, int64_t rows, int64_t cols, void* workspace,
                    size_t workspace_bytes, void* stream);
int rowwise_log_softmax(rowwise_dtype dtype, const void* x, void* y, int64_t rows, int64_t cols,
                        void* workspace, size_t workspace_bytes, void* stream);
int rowwise_softmax_backward(rowwise_dtype dtype, const void* y, const void* dy, void* dx, int64_t rows,
                             int64_t cols, void* workspace, size_t workspace_bytes, void* stream);
int rowwise_log_softmax_backward(rowwise_dtype dtype, const void* y, const void* dy, void* dx, int64_t rows,
                                 int64_t cols, void* workspace, size_t workspace_bytes, void* stream);
int rowwise_cross_entropy(rowwise_dtype dtype, const void* x, const int64_t* labels, float* loss,
                          int64_t rows, int64_t cols, void* workspace, size_t workspace_bytes, void* stream);
int rowwise_cross_entropy_gradient(rowwise_dtype dtype, const void* x, const int64_t* labels, float* loss,
                                   void* dx, int64_t rows, int64_t cols, void* workspace,
                                   size_t workspace_bytes, void* stream);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(modernize-deprecated-headers,modernize-use-using) */
