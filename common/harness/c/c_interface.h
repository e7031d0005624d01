/* The harness for programs in other languages: the same inputs, verification and timer that the stages'
   executables use, for the stages' variants and for any other code that enqueues work on a CUDA stream. So one
   process can measure all of them by one timer. It is plain C, for ctypes and its like.

   A session holds device 0, the timer and a list of contenders, each with a number from 0: first the plain
   copy (the ceiling), then the added ones. At most one problem is open at a time.

   Every function that returns int returns 0, or one of the stages' exit codes: 1 wrong result, 2 bad usage
   (an unknown name, a shape that does not fit, times requested from the simulator), 3 no usable device, 4
   anything else. Then softmax_error() is one line about the mistake. After a 0, softmax_told() is the result of
   the call: JSON, if the call's comment shows some. Pointers are never null unless a comment allows it. Only
   one thread at a time may call. */
#pragma once

/* NOLINTBEGIN(modernize-deprecated-headers,modernize-use-using): C knows neither */
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Both are valid until the next call. */
const char* softmax_error(void);
const char* softmax_told(void);

typedef struct softmax_session softmax_session;

/* Opens device 0 (choose with CUDA_VISIBLE_DEVICES). l2: "cold" or "warm", as --l2 of the stages. Tells the
   `machine` object of the stages' JSON, and `simulated`: 1 for the CPU simulator, which verifies and takes no
   times. */
int softmax_open(const char* l2, softmax_session** session);
/* Closes the open problem too. Null is fine. */
void softmax_close(softmax_session* session);
/* Waits for the device. An error here stays for the rest of the process: the device's context is lost. */
int softmax_synchronize(softmax_session* session);

/* Adds the variants of a stage from its library, build/libstage_NN_name.so, and closes the open problem. */
int softmax_add_stage(softmax_session* session, const char* library);

/* Enqueues one launch on `stream` (a cudaStream_t) that reads the operation's inputs and writes its outputs:
   a pointer to device memory for each tensor, in the order that softmax_open_problem tells (for softmax one
   input, x, and one output, y). It is called while the stream is captured into a graph, so that it must
   neither wait nor allocate then. softmax_verify has called it once before, without a capture. Returns 0,
   or anything else for a failure. */
typedef int (*softmax_launch)(void* context, const void* const* inputs, void* const* outputs, void* stream);
/* `stage` and `name` are copied; `context` is passed on to `launch`. */
int softmax_add_contender(softmax_session* session, const char* stage, const char* name,
                          softmax_launch launch, void* context);

/* [{"stage": a stage's folder, the argument of softmax_add_contender, or "" for the copy,
     "name": the variant's, or "copy", "idea": one line, may be ""}, ...] */
int softmax_contenders(softmax_session* session);

/* Allocates and fills the inputs and outputs of one problem; closes the one that was open. The names are
   those of the stages' options: dtype "f32", "f16" or "bf16", op "softmax", "log_softmax" or another one of an
   added stage, input "normal", ... ; offset in elements, 0 to 1024. After a failure none is open.
   Tells the row-major tensors, inputs first:
   [{"name": "x", "dtype": "f32", or "i64" for labels, "rows": 3, "cols": 4, "is_output": false}, ...] */
int softmax_open_problem(softmax_session* session, const char* dtype, const char* op, int64_t rows,
                         int64_t cols, const char* input, uint64_t seed, int64_t offset);
void softmax_close_problem(softmax_session* session);

/* {"reason": why the contender cannot do the open problem, or "",
    "passes": bytes that it says it requests / bytes of the matrix, or null} */
int softmax_applies(softmax_session* session, int contender);

/* Launches once and compares every element. tolerance_factor: 1 for contenders with the tolerance of the
   stages, more for others. The copy is not verified: correct.
   {"correct": no error is above tolerance_factor times the allowed one, "explanation": the mistake, or "",
    "max_error": worst |got - reference| / allowed} */
int softmax_verify(softmax_session* session, int contender, double tolerance_factor);

/* `repeats` samples each of the contender and the copy in turn, after copies for `warm_up_ms` milliseconds. A
   slow contender gets fewer, at least 5: none is begun after `limit_ms`. Verify first. The results of the last
   launches are verified again, with the same tolerance_factor: 1 and softmax_error() if they are wrong now.
   {"time_us": median of one launch, "spread_percent": (third quartile - first quartile) / median,
    "copy_us": the copy's, "copy_spread_percent": the copy's, "note": a reason to doubt the time, or ""} */
int softmax_time(softmax_session* session, int contender, int repeats, int warm_up_ms, int limit_ms);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(modernize-deprecated-headers,modernize-use-using) */
