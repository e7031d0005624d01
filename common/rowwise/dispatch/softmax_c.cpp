#include "common/rowwise/include/rowwise/softmax_c.h"

#include <exception>
#include <stdexcept>
#include <string>

#include "common/rowwise/include/rowwise/softmax.h"

namespace {

thread_local std::string last_error;

/// Calls function(T*{}) with the type of the elements; what it throws becomes a code and rowwise_error().
template <class Function>
int guarded(rowwise_dtype dtype, Function function) {
  try {
    switch (dtype) {
      case ROWWISE_F32:
        function(static_cast<float*>(nullptr));
        return ROWWISE_OK;
      case ROWWISE_F16:
        function(static_cast<__half*>(nullptr));
        return ROWWISE_OK;
      case ROWWISE_BF16:
        function(static_cast<__nv_bfloat16*>(nullptr));
        return ROWWISE_OK;
    }
    throw std::invalid_argument("dtype: " + std::to_string(static_cast<int>(dtype)) + " is none");
  } catch (const std::invalid_argument& error) {
    last_error = error.what();
    return ROWWISE_BAD_ARGUMENT;
  } catch (const std::exception& error) {
    last_error = error.what();
    return ROWWISE_CUDA_ERROR;
  }
}

cudaStream_t on(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

}  // namespace

const char* rowwise_error(void) {
  return last_error.c_str();
}

int rowwise_workspace_bytes(rowwise_operation operation, rowwise_dtype dtype, int64_t rows, int64_t cols,
                            size_t* bytes) {
  return guarded(dtype, [&]<class T>(T*) {
    if (bytes == nullptr) throw std::invalid_argument("bytes is null");
    if (operation < ROWWISE_SOFTMAX || operation > ROWWISE_CROSS_ENTROPY_GRADIENT) {
      throw std::invalid_argument("operation: " + std::to_string(static_cast<int>(operation)) + " is none");
    }
    *bytes = rowwise::workspace_bytes<T>(static_cast<rowwise::Operation>(operation), {rows, cols});
  });
}

int rowwise_softmax(rowwise_dtype dtype, const void* x, void* y, int64_t rows, int64_t cols, void* workspace,
                    size_t workspace_bytes, void* stream) {
  return guarded(dtype, [&]<class T>(T*) {
    rowwise::softmax(static_cast<const T*>(x), static_cast<T*>(y), {rows, cols}, on(stream),
                     {workspace, workspace_bytes});
  });
}

int rowwise_log_softmax(rowwise_dtype dtype, const void* x, void* y, int64_t rows, int64_t cols,
                        void* workspace, size_t workspace_bytes, void* stream) {
  return guarded(dtype, [&]<class T>(T*) {
    rowwise::log_softmax(static_cast<const T*>(x), static_cast<T*>(y), {rows, cols}, on(stream),
                         {workspace, workspace_bytes});
  });
}

int rowwise_softmax_backward(rowwise_dtype dtype, const void* y, const void* dy, void* dx, int64_t rows,
                             int64_t cols, void* workspace, size_t workspace_bytes, void* stream) {
  return guarded(dtype, [&]<class T>(T*) {
    rowwise::softmax_backward(static_cast<const T*>(y), static_cast<const T*>(dy), static_cast<T*>(dx),
                              {rows, cols}, on(stream), {workspace, workspace_bytes});
  });
}

int rowwise_log_softmax_backward(rowwise_dtype dtype, const void* y, const void* dy, void* dx, int64_t rows,
                                 int64_t cols, void* workspace, size_t workspace_bytes, void* stream) {
  return guarded(dtype, [&]<class T>(T*) {
    rowwise::log_softmax_backward(static_cast<const T*>(y), static_cast<const T*>(dy), static_cast<T*>(dx),
                                  {rows, cols}, on(stream), {workspace, workspace_bytes});
  });
}

int rowwise_cross_entropy(rowwise_dtype dtype, const void* x, const int64_t* labels, float* loss,
                          int64_t rows, int64_t cols, void* workspace, size_t workspace_bytes, void* stream) {
  return guarded(dtype, [&]<class T>(T*) {
    rowwise::cross_entropy(static_cast<const T*>(x), labels, loss, {rows, cols}, on(stream),
                           {workspace, workspace_bytes});
  });
}

int rowwise_cross_entropy_gradient(rowwise_dtype dtype, const void* x, const int64_t* labels, float* loss,
                                   void* dx, int64_t rows, int64_t cols, void* workspace,
                                   size_t workspace_bytes, void* stream) {
  return guarded(dtype, [&]<class T>(T*) {
    rowwise::cross_entropy_gradient(static_cast<const T*>(x), labels, loss, static_cast<T*>(dx), {rows, cols},
                                    on(stream), {workspace, workspace_bytes});
  });
}
