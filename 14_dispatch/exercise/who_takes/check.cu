// Exercise 14.1: how to read a table of kernels and the shapes that they take. choose() of the stage reads
// this one.
#include "common/exercise/exercise.h"
#include "common/rowwise/dispatch/choice.h"

namespace rowwise {

namespace {

enum class Stage { registers = 3, any_row = 6, split_row = 7, async_copy = 9, cluster = 10 };

constexpr Choice<Stage> lines[] = {
    {.most_rows = 8, .most_cols = 200, .kernel = Stage::registers},
    {.most_rows = 8, .most_cols = any, .kernel = Stage::split_row},
    {.most_rows = any, .most_cols = 200, .kernel = Stage::registers},
    {.most_rows = any, .most_cols = 30000, .kernel = Stage::async_copy},
    {.most_rows = any, .most_cols = any, .kernel = Stage::cluster},
    {.most_rows = any, .most_cols = any, .kernel = Stage::any_row},
};
constexpr int multiprocessors = 132;  // of the GPU that was measured

bool can_do(Stage kernel, const Matrix& matrix, const Gpu& gpu) {
  if (kernel == Stage::async_copy) return matrix.in_packs();
  if (kernel == Stage::cluster) return matrix.in_packs() && gpu.largest_cluster > 0;
  return true;
}

Need need(Stage kernel, const Matrix& /*matrix*/) {
  return {.workspace_bytes = kernel == Stage::split_row ? std::size_t{1} : 0,
          .clusters = kernel == Stage::cluster};
}

}  // namespace

template <>
Choices<Stage> choices_for(const Matrix& /*matrix*/) {
  return {lines, multiprocessors};
}

}  // namespace rowwise

namespace {

constexpr Gpu recorded{.multiprocessors = rowwise::multiprocessors, .largest_cluster = 16};
constexpr bool workspace = true;

double stage_for(std::int64_t rows, std::int64_t cols, bool has_workspace, Gpu gpu = recorded) {
  const Matrix matrix{.rows = rows, .cols = cols, .element_bytes = 4, .alignment = 16, .lie_alike = true};
  return static_cast<double>(rowwise::choose<rowwise::Stage>(matrix, gpu, has_workspace));
}

Gpu without_clusters() {
  Gpu gpu = recorded;
  gpu.largest_cluster = 0;
  return gpu;
}

Gpu twice_as_large() {
  Gpu gpu = recorded;
  gpu.multiprocessors *= 2;
  return gpu;
}

}  // namespace

int main(int argc, char** argv) {
  const Prediction prediction{
      {
          {"four_narrow_rows",
           [] { return stage_for(4, 100, workspace); },
           {{7, "The line for few rows is the second. Does the first hold these rows, too?"}},
           "Which is the first line that holds 4 rows and 100 columns?"},
          {"four_wide_rows",
           [] { return stage_for(4, 60000, workspace); },
           {{10, "There is a line for few rows above, and the caller has what its kernel needs."}},
           "Which line is for few rows?"},
          {"without_workspace",
           [] { return stage_for(4, 60000, !workspace); },
           {{7, "Its kernel needs a workspace. Go on to the next line that holds the matrix."},
            {9, "Its line ends at 30000 columns."},
            {6, "It could, but a line above can, too: are 60000 floats whole packs?"}},
           "Pass over the line whose kernel cannot do it, and go on."},
          {"not_whole_packs",
           [] { return stage_for(4, 60001, !workspace); },
           {{10, "60001 floats are no whole packs: the second row begins 4 bytes past one."}},
           "Who needs whole packs of 16 bytes, 4 floats?"},
          {"without_clusters",
           [] { return stage_for(1000, 60000, workspace, without_clusters()); },
           {{10, "This GPU has no clusters."}, {9, "Its line ends at 30000 columns."}},
           "Which lines hold so many rows and columns?"},
          {"on_a_large_gpu",
           [] { return stage_for(12, 60000, workspace, twice_as_large()); },
           {{10, "12 rows on 264 multiprocessors leave it as idle as how many on 132?"}},
           "Rows are counted as the GPU of the table would see them."},
      },
      "A table is read from the top: the first line that holds the matrix, and whose kernel can do it. What "
      "a GPU or a "
      "caller does not have only makes the search go on, so the last line must do anything."};
  return check_prediction(prediction, argc, argv);
}
