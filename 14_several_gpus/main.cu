#include "14_several_gpus/gathered_pairs.cuh"
#include "14_several_gpus/two_all_reduces.cuh"
#include "common/harness/cli/run_stage.h"
#include "common/harness/column_split.h"
#include "common/harness/launches.cuh"

namespace {

using SplitOperations = Operations<Softmax, LogSoftmax, CrossEntropy>;

/// All GPUs as ranks, from the first use on.
class AllGpus {
 public:
  const std::vector<Rank>& ranks(int count) {
    if (ranks_.empty()) ranks_ = ranks_of_one_process(count);
    return ranks_;
  }

 private:
  std::vector<Rank> ranks_;
};
using Gpus = std::shared_ptr<AllGpus>;

bool makes_loss(const Problem& problem) {
  return is_one_of(Operations<CrossEntropy>{}, problem.op);
}

template <class T>
std::vector<Part<T>> parts_of(const Problem& problem, const Memory& memory) {
  const auto devices = static_cast<std::size_t>(problem.devices);
  const std::size_t inputs = memory.inputs.size() / devices;
  std::vector<Part<T>> parts;
  for (std::size_t i = 0; i < devices; ++i) {
    const auto [first, count] = columns_of(static_cast<int>(i), problem.devices, problem.shape.cols);
    Part<T> part{.x = static_cast<const T*>(memory.inputs[i * inputs]),
                 .shape = {problem.shape.rows, count},
                 .first_col = first,
                 .row_cols = problem.shape.cols};
    if (makes_loss(problem)) {
      part.labels = static_cast<const std::int64_t*>(memory.inputs[i * inputs + 1]);
      part.loss = static_cast<float*>(memory.outputs[i]);
    } else {
      part.y = static_cast<T*>(memory.outputs[i]);
    }
    parts.push_back(part);
  }
  return parts;
}

Shape widest_part(const Problem& problem) {
  return {problem.shape.rows, columns_of(0, problem.devices, problem.shape.cols).count};
}

// ---- The variants

Variant two_all_reduces(const Gpus& gpus) {
  return {.name = "two_all_reduces",
          .idea = "the maximum, all-reduce, the sum, all-reduce, write",
          .prepare = [gpus](const Problem& problem, const Device&, const Memory& memory) -> Plan {
            return dispatch(SplitOperations{}, problem, [&]<class Op, class T>() -> Plan {
              const std::vector<Rank>& ranks = gpus->ranks(problem.devices);
              return [gpus, &ranks, parts = parts_of<T>(problem, memory),
                      workspaces = memory.workspaces](const Streams& streams) {
                TwoAllReduces::launch<Op>(ranks, parts, workspaces, streams);
              };
            });
          },
          .traffic = whole_passes(3, 1),
          .workspace =
              [](const Problem& problem, const Device&) {
                return Workspace{.bytes = TwoAllReduces::workspace_bytes(problem.shape.rows)};
              }};
}

/// chunk_bytes: of a part.
Cutting cutting_of(const Problem& problem, std::size_t chunk_bytes) {
  return cut_rows(widest_part(problem), size_of(problem.dtype), chunk_bytes);
}

Variant gathered(const Gpus& gpus, std::string name, std::string idea, std::size_t chunk_bytes) {
  const bool in_chunks = chunk_bytes < std::numeric_limits<std::size_t>::max();
  return {.name = std::move(name),
          .idea = std::move(idea),
          .prepare = [=](const Problem& problem, const Device&, const Memory& memory) -> Plan {
            return dispatch(SplitOperations{}, problem, [&]<class Op, class T>() -> Plan {
              const std::vector<Rank>& ranks = gpus->ranks(problem.devices);
              const auto exchange = in_chunks ? std::make_shared<ExchangeStreams>(ranks) : nullptr;
              return [gpus, &ranks, exchange, world = problem.devices, parts = parts_of<T>(problem, memory),
                      cutting = cutting_of(problem, chunk_bytes),
                      workspaces = memory.workspaces](const Streams& streams) {
                if (parts.front().shape.rows == 0) return;
                launch_gathered<Op>(ranks, world, parts, workspaces, cutting, exchange.get(), streams);
              };
            });
          },
          .traffic = whole_passes(2, 1),
          .workspace =
              [=](const Problem& problem, const Device&) {
                const Cutting cutting = cutting_of(problem, chunk_bytes);
                const std::size_t of_one = makes_loss(problem)
                                               ? cutting.message_bytes<CrossEntropy>(problem.shape.rows)
                                               : cutting.message_bytes<Softmax>(problem.shape.rows);
                return Workspace{.bytes = static_cast<std::size_t>(1 + problem.devices) * of_one};
              }};
}

}  // namespace

Stage stage() {
  const auto gpus = std::make_shared<AllGpus>();
  constexpr std::size_t all_rows = std::numeric_limits<std::size_t>::max();
  constexpr std::size_t chunk_bytes = std::size_t{16}
                                      << 20U;  // two of them, and what is written, in an L2 of 50 MiB
  return {.name = "14_several_gpus",
          .idea = "the columns of a row lie on several GPUs",
          .variants =
              {
                  two_all_reduces(gpus),
                  gathered(gpus, "host_collectives", "a pair for each part; gather them; merge and write",
                           all_rows),
                  gathered(gpus, "chunked", "the same in chunks, exchanged behind the next one's first read",
                           chunk_bytes),
              },
          .operations = split_operations(),
          .on_all_gpus = true};
}

int main(int argc, char** argv) {
  return run_stage(stage(), argc, argv);
}
