// Cross-entropy with its gradient: the launchers of the kernels, whose idea is that of stage 12.
#include "common/rowwise/dispatch/launchers.cuh"
#include "common/rowwise/kernels/loss/in_registers.cuh"
#include "common/rowwise/kernels/loss/kept_row.cuh"
#include "common/rowwise/kernels/loss/narrow_rows.cuh"
#include "common/rowwise/kernels/loss/span_loss.cuh"
#include "common/rowwise/kernels/loss/unaligned_cluster.cuh"

namespace rowwise {

NarrowRows launcher_of(Is<Gradient::narrow_rows>);
SpanOfRows launcher_of(Is<Gradient::flat_span>);
InRegisters launcher_of(Is<Gradient::in_registers>);
UnalignedInCluster launcher_of(Is<Gradient::unaligned_cluster>);
KeptRows launcher_of(Is<Gradient::kept_row>);

ROWWISE_COMPILE(Gradient)
ROWWISE_COMPILE_LAUNCH(Gradient, WithGradient<CrossEntropy>)
#ifdef ROWWISE_SMOOTHED_LABELS  // see launch.cuh
ROWWISE_COMPILE_LAUNCH(Gradient, WithGradient<SmoothedCrossEntropy>)
#endif

}  // namespace rowwise
