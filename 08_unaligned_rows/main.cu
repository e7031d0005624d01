#include "08_unaligned_rows/flat_span.cuh"
#include "08_unaligned_rows/head_and_tail.cuh"
#include "08_unaligned_rows/row_in_flight.cuh"
#include "08_unaligned_rows/shifted.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/launches.cuh"

namespace {

template <class Launcher>
Variant in_registers(const char* name) {
  return {.name = name,
          .idea = "tuning",
          .prepare = launches<Launcher>,
          .traffic = whole_passes(1, 1),
          .unsupported = at_most_columns(Launcher::most_cols, "registers")};
}

template <int threads, int groups, int boundary>
Variant in_shared(const char* name) {
  return {.name = name,
          .idea = "tuning",
          .prepare = launches<RowInFlight<threads, groups, boundary>>,
          .traffic = whole_passes(1, 1),
          .unsupported = at_most_columns(1 << 30, "an index")};
}

template <Lanes lanes, int most, int span, int most_threads>
Variant in_span(const char* name) {
  using Launcher = FlatSpan<lanes, most, span, most_threads>;
  return {.name = name,
          .idea = "tuning",
          .prepare = launches<Launcher>,
          .traffic = whole_passes(1, 1),
          .unsupported = [](const Problem& problem, const Device&) {
            return Launcher::unsupported(problem.shape, size_of(problem.dtype));
          }};
}

}  // namespace

Stage stage() {
  using enum Lanes;
  return {.name = "08_unaligned_rows",
          .idea = "widths that no pack divides",
          .variants = {
              in_registers<HeadAndTail<1, 16, 16>>("scalar_16"),
              in_registers<HeadAndTail<1, 32, 16>>("scalar_32"),
              in_registers<HeadAndTail<4, 8, 32>>("ends_8_at32"),
              in_registers<HeadAndTail<4, 16, 16>>("ends_16_at16"),
              in_registers<HeadAndTail<4, 16, 32>>("ends_16_at32"),
              in_registers<HeadAndTail<4, 16, 128>>("ends_16_at128"),
              in_registers<HeadAndTail<4, 32, 16>>("ends_32_at16"),
              in_registers<HeadAndTail<4, 32, 32>>("ends_32_at32"),
              in_registers<HeadAndTail<4, 32, 128>>("ends_32_at128"),
              in_registers<Shifted<16, 16>>("shifted_16_at16"),
              in_registers<Shifted<16, 128>>("shifted_16_at128"),
              in_registers<Shifted<32, 16>>("shifted_32_at16"),
              in_registers<Shifted<32, 32>>("shifted_32_at32"),
              in_registers<Shifted<32, 128>>("shifted_32_at128"),
              in_span<over_rows, 16, 8192, 512>("span_16_8k"),
              in_span<over_rows, 16, 16384, 512>("span_16_16k"),
              in_span<over_rows, 16, 32768, 1024>("span_16_32k"),
              in_span<over_rows, 33, 8192, 512>("span_33_8k"),
              in_span<over_rows, 33, 16384, 512>("span_33_16k"),
              in_span<over_rows, 33, 32768, 1024>("span_33_32k"),
              in_span<over_columns, 8, 8192, 512>("span_warp_8_8k"),
              in_span<over_columns, 8, 16384, 1024>("span_warp_8_16k"),
              in_span<over_columns, 33, 8192, 512>("span_warp_33_8k"),
              in_span<over_columns, 33, 16384, 512>("span_warp_33_16k"),
              in_span<over_columns, 33, 32768, 1024>("span_warp_33_32k"),
              in_shared<256, 1, 16>("requested_256_1_at16"),
              in_shared<256, 4, 128>("requested_256_4_at128"),
              in_shared<512, 1, 16>("requested_512_1_at16"),
              in_shared<512, 4, 128>("requested_512_4_at128"),
              in_shared<512, 8, 128>("requested_512_8_at128"),
              in_shared<1024, 1, 16>("requested_1024_1_at16"),
              in_shared<1024, 1, 128>("requested_1024_1_at128"),
              in_shared<1024, 4, 16>("requested_1024_4_at16"),
              in_shared<1024, 4, 128>("requested_1024_4_at128"),
              in_shared<1024, 8, 128>("requested_1024_8_at128"),
          }};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
