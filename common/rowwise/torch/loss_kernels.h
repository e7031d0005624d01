// The arithmetic that cross-entropy needs besides the library's kernels. A call is one launch, or two for very many rows.
#pragma once

#include <cuda_runtime_api.h>
#include <rowwise/softmax_c.h>

#include <cstddef>
#include <cstdint>

namespace rowwise {

/// loss[0] is the sum of the losses or, if is_mean, the sum divided by the number of labels other than -100;
/// factor[0] is the derivative of loss[0] by each loss of a row that counts: 1, or 1 divided by that number.
/// If no label counts, the mean is NaN and the factor 0, as in PyTorch. factor may be null. The result is the same in every run.
/// `parts` has bytes_of_parts(rows) bytes.
cudaError_t launch_reduction(const float* losses, const std::int64_t* labels, std::int64_t rows, bool is_mean,
                             float* loss, float* factor, void* parts, cudaStream_t stream);
/// 0 if one block reduces all rows.
std::size_t bytes_of_parts(std::int64_t rows);

/// dx[i] *= d_loss[0] * factor[0], in float. dx begins at a multiple of 16 bytes.
cudaError_t launch_scaling(rowwise_dtype dtype, void* dx, std::int64_t elements, const float* d_loss,
                           const float* factor, cudaStream_t stream);

}  // namespace rowwise
