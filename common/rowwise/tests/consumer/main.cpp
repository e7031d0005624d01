// Prints the first elements of the softmax of a wide row, of whose columns each seven have the values 0 to 6.
#include <cuda_runtime.h>
#include <rowwise/softmax.h>

#include <cstdio>
#include <exception>
#include <vector>

int main() try {
  const rowwise::Extent extent{1, 151935};
  std::vector<float> row(extent.cols);
  for (std::size_t col = 0; col < row.size(); ++col) row[col] = static_cast<float>(col % 7);

  rowwise::Workspace workspace;
  workspace.bytes = rowwise::workspace_bytes<float>(rowwise::Operation::softmax, extent);
  cudaMalloc(&workspace.data, workspace.bytes);
  cudaMemset(workspace.data, 0, workspace.bytes);

  float* x = nullptr;
  cudaMalloc(&x, row.size() * sizeof(float));
  cudaMemcpy(x, row.data(), row.size() * sizeof(float), cudaMemcpyHostToDevice);
  rowwise::softmax(x, x, extent, nullptr, workspace);
  cudaMemcpy(row.data(), x, row.size() * sizeof(float), cudaMemcpyDeviceToHost);
  for (int col = 0; col < 7; ++col) std::printf("%.9g\n", row[col]);
  cudaFree(x);
  cudaFree(workspace.data);
} catch (const std::exception& error) {
  std::fprintf(stderr, "consumer: %s\n", error.what());
  return 1;
}
