// One instruction of one thread copies a whole row: cp.async.bulk. The copy unit computes the addresses; a
// barrier in shared memory counts the bytes that have arrived. It needs compute capability 9.0 or newer.
#pragma once

#include "09_async_copy/own_packs.cuh"

constexpr int ring_slots = 3;

/// Each slot begins at a line of 128 bytes.
__host__ __device__ constexpr std::int64_t slot_bytes(std::int64_t row_bytes) {
  return round_up(row_bytes, 128);
}

/// Persistent blocks. A ring of slots: the block works on one row while the next ones are in flight.
template <class Op, class T>
__global__ void __launch_bounds__(1024)
    bulk_copy_softmax(const T* x, T* y, Shape shape, TicketCounter* tickets) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char buffer[];
  __shared__ typename Op::State storage[2][32];
  __shared__ MemoryBarrier arrived[ring_slots];
  __shared__ unsigned row_in[ring_slots];
  const std::int64_t row_bytes = shape.cols * std::int64_t{sizeof(T)};
  const int num_packs = static_cast<int>(row_bytes / 16);
  const auto slot_at = [&](int slot) { return reinterpret_cast<T*>(buffer + slot * slot_bytes(row_bytes)); };
  // Thread 0 calls it. A row past the end arrives immediately, which tells the other threads that there are
  // no more rows.
  const auto request = [&](int slot, unsigned row) {
    row_in[slot] = row;
    if (row < shape.rows) {
      copy_bulk_async(slot_at(slot), x + row * shape.cols, static_cast<std::uint32_t>(row_bytes),
                      &arrived[slot]);
    } else {
      (void)cuda::ptx::mbarrier_arrive(&arrived[slot]);
    }
  };

  if (threadIdx.x == 0) {
    for (int slot = 0; slot < ring_slots; ++slot) cuda::ptx::mbarrier_init(&arrived[slot], 1);
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);  // makes them visible to the copy unit
    for (int slot = 0; slot < ring_slots; ++slot) request(slot, blockIdx.x + slot * gridDim.x);
  }
  __syncthreads();  // no thread waits at a barrier that is not initialised yet
  for (int step = 0;; ++step) {
    const int slot = step % ring_slots;
    wait_for_phase(&arrived[slot], step / ring_slots % 2);
    const unsigned row = row_in[slot];
    if (row >= shape.rows) break;
    unsigned ticket = 0;
    if (threadIdx.x == 0 && step > 0) ticket = draw_ticket(tickets, shape.rows - gridDim.x);

    typename Op::State own{};
    constexpr int N = elements_per_16_bytes<T>;
#pragma unroll 4
    for (int pack = static_cast<int>(threadIdx.x); pack < num_packs; pack += static_cast<int>(blockDim.x)) {
      float values[N];
      unpack(load_pack<N>(slot_at(slot) + pack * N), values);
      Op::add(own, values);
    }
    const RowResult<Op> result(block_merge_once<Op>(own, storage[step % 2]));
    // All threads have passed the merge's barrier, so they are done with the previous row: its slot is free.
    if (threadIdx.x == 0 && step > 0) {
      request((step - 1) % ring_slots, ring_slots * gridDim.x + ticket);
    }
#pragma unroll 4
    for (int pack = static_cast<int>(threadIdx.x); pack < num_packs; pack += static_cast<int>(blockDim.x)) {
      write_pack(y + row * shape.cols, slot_at(slot), pack, result);
    }
  }
#endif
}

/// Softmax (or log-softmax) of each row, if shared memory holds ring_slots rows; rows = 0 does nothing. It needs compute
/// capability 9.0. The workspace is a TicketCounter, which is 0 before and after the launch.
struct BulkCopy : DrawsRows {
  static Refusal refuses(const Matrix& matrix, const Gpu& gpu) {
    if (gpu.compute_capability < 9) return {Why::bulk_copies};
    if (const Refusal refusal = DrawsRows::refuses(matrix, gpu)) return refusal;
    return fits_shared_memory(matrix, gpu, ring_slots);
  }

  template <class Op, class T>
  static void launch(const Tensors<T>& tensors, cudaStream_t stream) {
    if (tensors.shape.rows == 0) return;
    const auto kernel = bulk_copy_softmax<Op, T>;
    const int shared_bytes =
        static_cast<int>(ring_slots * slot_bytes(tensors.shape.cols * std::int64_t{sizeof(T)}));
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    const int threads = threads_for(tensors.shape.cols / elements_per_16_bytes<T>, 0, most_shared_bytes());
    const unsigned blocks = blocks_that_stay(kernel, threads, shared_bytes, tensors.shape.rows);
    kernel<<<blocks, threads, shared_bytes, stream>>>(tensors.x, tensors.y, tensors.shape,
                                                      static_cast<TicketCounter*>(tensors.workspace));
    CUDA_CHECK(cudaGetLastError());
  }
};
