/* Prints the softmax of a row of seven columns. */
#include <cuda_runtime_api.h>
#include <rowwise/softmax_c.h>
#include <stdio.h>

int main(void) {
  float row[] = {0, 1, 2, 3, 4, 5, 6};
  void* x = NULL;
  cudaMalloc(&x, sizeof(row));
  cudaMemcpy(x, row, sizeof(row), cudaMemcpyHostToDevice);
  if (rowwise_softmax(ROWWISE_F32, x, x, 1, 7, NULL, 0, NULL) != ROWWISE_OK) {
    fprintf(stderr, "consumer_in_c: %s\n", rowwise_error());
    return 1;
  }
  cudaMemcpy(row, x, sizeof(row), cudaMemcpyDeviceToHost);
  for (int col = 0; col < 7; ++col) printf("%.9g\n", row[col]);
  cudaFree(x);
  return 0;
}
