/* What the simulator counted, for a program that runs under it. Plain C, and found with dlsym, so that the
 * same program also runs where there is no simulator:
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

/* One kind of access: loads or stores (atomics count as stores), of global or of shared memory. */
typedef struct SimAccesses { /* NOLINT(modernize-use-using) */
  uint64_t requests;         /* warp instructions with at least one active lane */
  uint64_t bytes;            /* distinct bytes that the lanes of a warp instruction ask for, added up */
  uint64_t sectors;          /* global: distinct 32-byte sectors of each warp instruction, added up */
  uint64_t wavefronts;       /* shared: passes that the 32 banks need */
  uint64_t
      bank_conflicts; /* shared: passes beyond the first of each group of lanes that is served together */
} SimAccesses;

typedef struct SimCounters { /* NOLINT(modernize-use-using) */
  SimAccesses global_loads;
  SimAccesses global_stores;
  SimAccesses shared_loads;
  SimAccesses shared_stores;
  uint64_t warp_instructions;      /* of PTX, executed, also by no lane (predicated off) */
  uint64_t shuffles;               /* warp instructions */
  uint64_t votes;                  /* warp instructions: vote, match, redux */
  uint64_t block_barriers;         /* times that a block passed a barrier */
  uint64_t warp_barriers;          /* warp instructions: bar.warp.sync */
  uint64_t special_function_lanes; /* lanes: ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh in their approximate
                                      forms */
  uint64_t exp2_lanes;             /* lanes: ex2 alone */
  uint64_t atomics;                /* warp instructions */
} SimCounters;

typedef struct SimLaunch { /* NOLINT(modernize-use-using) */
  const char* kernel;      /* demangled, without its parameter list */
  uint32_t grid[3];        /* NOLINT(modernize-avoid-c-arrays) */
  uint32_t block[3];       /* NOLINT(modernize-avoid-c-arrays) */
  uint64_t shared_bytes;   /* static and dynamic */
  SimCounters counters;
  size_t lines; /* how many source lines have counters of their own */
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
  const char* device;   /* what is simulated, in words */
  void (*begin)(void);  /* forgets all launches, and records those that follow */
  void (*end)(void);    /* stops recording; what was recorded stays until the next begin() */
  size_t (*launches)(void);
  const SimLaunch* (*launch)(size_t index); /* valid until the next begin() */
  const SimLine* (*line)(size_t launch, size_t index);
  /* Device memory that counts as never written from now on, whatever was written: reading it is a fault. */
  void (*forget)(void* device_pointer, size_t bytes);
  /* Faults that were found since the program started, and the text of the last one ("" if none). */
  uint64_t (*faults)(void);
  const char* (*last_fault)(void);
} SimApi;

#define SIM_API_VERSION 2u

typedef const SimApi* (*sim_api_function)(void); /* NOLINT(modernize-use-using) */
/* NOLINTEND(modernize-redundant-void-arg) */

#ifdef __cplusplus
}
#endif

#endif
