/* The simulator's counts, for a program that runs under it. Plain C, and found with dlsym, so that the same
 * program also runs without the simulator:
 *
 *   #include "common/sim/counters.h"
 *   sim_api_function api = (sim_api_function)dlsym(RTLD_DEFAULT, SIM_API_NAME);
 *   if (api) { const SimApi* sim = api(); sim->begin(); launch(); sim->end(); ... sim->launch(0) ... }
 *
 * Every number is counted on the PTX, not measured: ptxas may merge or drop instructions afterwards. */
#ifndef COMMON_SIM_COUNTERS_H
#define COMMON_SIM_COUNTERS_H

#include <stddef.h> /* NOLINT(modernize-deprecated-headers): this header is C */
#include <stdint.h> /* NOLINT(modernize-deprecated-headers) */

#ifdef __cplusplus
extern "C" {
#endif

#define SIM_API_NAME "simulator_api"

/* Every counter with its description, in one place: structs, sums and tables are made from these lists, as in
 *   #define PRINT(counter, what) printf("%s: %llu\n", #counter, (unsigned long long)counters.counter);
 *   SIM_COUNTERS(PRINT) */

/* The counters of one kind of access. */
#define SIM_ACCESS_COUNTERS(X)                                                      \
  X(requests, "warp instructions with at least one active lane")                    \
  X(bytes, "distinct bytes that the lanes of a warp instruction ask for, added up") \
  X(sectors, "global: distinct 32-byte sectors of each warp instruction, added up") \
  X(wavefronts, "shared: passes that the 32 banks need")                            \
  X(bank_conflicts, "shared: passes beyond the first of each group of lanes that is served together")

/* Atomics count as stores. A cp.async counts twice: as a load of global memory and as a store to shared memory. A bulk
 * copy is one request of global memory, and none of shared memory. Operations on an mbarrier do not count as accesses. */
#define SIM_ACCESS_KINDS(X) \
  X(global_loads)           \
  X(global_stores)          \
  X(shared_loads)           \
  X(shared_stores)

#define SIM_COUNTERS(X)                                                                      \
  X(warp_instructions, "of PTX, executed, also by no lane (predicated off)")                 \
  X(shuffles, "warp instructions")                                                           \
  X(votes, "warp instructions: vote, match, redux, elect")                                   \
  X(block_barriers, "times that a block passed a barrier")                                   \
  X(warp_barriers, "warp instructions: bar.warp.sync")                                       \
  X(special_function_lanes, "lanes: approximate ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh") \
  X(exp2_lanes, "lanes: ex2 alone")                                                          \
  X(atomics, "warp instructions")                                                            \
  X(async_copy_bytes, "distinct bytes that cp.async reads, which are global loads, too")     \
  X(peer_bytes, "of lanes, in the memory of other devices: of what they load and store there")

#define SIM_COUNTER_MEMBER(counter, what) uint64_t counter;
#define SIM_ACCESSES_MEMBER(kind) SimAccesses kind;

typedef struct SimAccesses { /* NOLINT(modernize-use-using) */
  SIM_ACCESS_COUNTERS(SIM_COUNTER_MEMBER)
} SimAccesses;

typedef struct SimCounters { /* NOLINT(modernize-use-using) */
  SIM_ACCESS_KINDS(SIM_ACCESSES_MEMBER)
  SIM_COUNTERS(SIM_COUNTER_MEMBER)
} SimCounters;

#undef SIM_COUNTER_MEMBER
#undef SIM_ACCESSES_MEMBER

typedef struct SimLaunch { /* NOLINT(modernize-use-using) */
  const char* kernel;      /* demangled, without its parameter list */
  uint32_t grid[3];        /* NOLINT(modernize-avoid-c-arrays) */
  uint32_t block[3];       /* NOLINT(modernize-avoid-c-arrays) */
  uint64_t shared_bytes;   /* static and dynamic */
  SimCounters counters;
  size_t lines; /* number of source lines that have counters of their own */
} SimLaunch;

/* NOLINTBEGIN(modernize-redundant-void-arg): in C, () is not (void) */
/* The part of a launch that belongs to one source line; a line that was inlined from several calls has a part
 * for each. */
typedef struct SimLine { /* NOLINT(modernize-use-using) */
  const char* place;    /* "file:line", and for each call that was inlined " from file:line"; "" if unknown */
  SimCounters counters; /* block_barriers: by the line of the barrier */
} SimLine;

typedef struct SimApi { /* NOLINT(modernize-use-using) */
  uint32_t version;     /* SIM_API_VERSION */
  const char* device;   /* the simulated device, in words */
  void (*begin)(void);  /* forgets all launches, and records those that follow */
  void (*end)(void);    /* stops recording; the records stay until the next begin() */
  size_t (*launches)(void);
  const SimLaunch* (*launch)(size_t index); /* valid until the next begin() */
  const SimLine* (*line)(size_t launch, size_t index);
  /* From now on the device memory counts as never written: reading it is a fault. */
  void (*forget)(void* device_pointer, size_t bytes);
  /* Faults that were found since the program started, and the text of the last one ("" if none). */
  uint64_t (*faults)(void);
  const char* (*last_fault)(void);
} SimApi;

#define SIM_API_VERSION 3u

typedef const SimApi* (*sim_api_function)(void); /* NOLINT(modernize-use-using) */
/* NOLINTEND(modernize-redundant-void-arg) */

#ifdef __cplusplus
}
#endif

#endif
