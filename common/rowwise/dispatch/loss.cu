// Cross-entropy without its gradient: the launchers of the kernels, whose idea is that of stage 12.
#include "common/rowwise/dispatch/launchers.cuh"
#include "common/rowwise/kernels/loss/cluster_loss.cuh"
#include "common/rowwise/kernels/loss/loss.cuh"
#include "common/rowwise/kernels/loss/narrow_rows.cuh"
#include "common/rowwise/kernels/loss/span_loss.cuh"
#include "common/rowwise/kernels/loss/split_loss.cuh"

namespace rowwise {

NarrowRows launcher_of(Is<Loss::narrow_rows>);
SpanOfRows launcher_of(Is<Loss::flat_span>);
OneRead launcher_of(Is<Loss::one_read>);
DrawnRows launcher_of(Is<Loss::drawn_rows>);
SplitLoss launcher_of(Is<Loss::split_row>);
ClusterLoss launcher_of(Is<Loss::cluster_loss>);
ClusterAtOnce launcher_of(Is<Loss::cluster_registers>);

ROWWISE_COMPILE(Loss)
ROWWISE_COMPILE_LAUNCH(Loss, CrossEntropy)
#ifdef ROWWISE_SMOOTHED_LABELS  // see launch.cuh
ROWWISE_COMPILE_LAUNCH(Loss, SmoothedCrossEntropy)
#endif

}  // namespace rowwise
