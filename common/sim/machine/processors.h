// Functions that are compiled once for each kind of processor, of which the one that is there takes its own: loops over
// lanes are then AVX2, and std::fma is one instruction, in a library that runs everywhere. (AVX-512 as a third kind made a
// chain of FMAs 5 % faster, and a fresh build a good deal slower.) Not with ThreadSanitizer, which has not begun when the
// functions are chosen.
#pragma once

// NOLINTBEGIN(cppcoreguidelines-macro-usage): an attribute has no other name
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 && \
    !defined(__SANITIZE_THREAD__)
#define SIM_EACH_PROCESSOR __attribute__((target_clones("default", "arch=x86-64-v3"), flatten))
#else
#define SIM_EACH_PROCESSOR
#endif
// NOLINTEND(cppcoreguidelines-macro-usage)
