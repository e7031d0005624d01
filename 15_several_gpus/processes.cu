// The variants of this stage with one process per GPU, so that the GPUs may be in several machines. torchrun,
// mpirun or srun starts the processes, and tells each of them its rank by environment variables. This file
// has no kernel; read it only if you want to start such processes yourself.
//   torchrun --no-python --nproc-per-node 2 build/15_several_processes --rows 4096 --cols 151936 --dtype bf16
//   mpirun -n 2 build/15_several_processes --rows 4096 --cols 151936 --dtype bf16
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "15_several_gpus/variants.h"
#include "common/harness/cli/command_line.h"
#include "common/harness/column_split.h"
#include "common/harness/device_vector.h"
#include "common/harness/errors.h"
#include "common/harness/simulator.h"

namespace {

/// Returns the first of these environment variables that is set, as a number.
int from_environment(std::initializer_list<const char*> names, int otherwise) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value != nullptr) return std::atoi(value);
  }
  return otherwise;
}

// ---- How long a process waits for others, which may have ended

constexpr unsigned most_seconds_for_a_step = 20;
std::array<char, 256> overdue_text{};

/// A limit for the time until the end of its scope: after most_seconds_for_a_step, the process prints a
/// message and ends.
class Deadline {
 public:
  Deadline(int rank, const std::string& step) {
    std::snprintf(overdue_text.data(), overdue_text.size(),
                  "rank %d: not done after %u s with %s: another rank has failed, or was not started\n", rank,
                  most_seconds_for_a_step, step.c_str());
    (void)std::signal(SIGALRM, [](int) {
      (void)!write(STDERR_FILENO, overdue_text.data(), std::strlen(overdue_text.data()));
      _exit(static_cast<int>(ExitCode::cuda_error));
    });
    (void)alarm(most_seconds_for_a_step);
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  ~Deadline() { (void)alarm(0); }
  /// Starts the time again.
  void renew() const { (void)alarm(most_seconds_for_a_step); }
};

// ---- One rank

std::size_t bytes_of(const Tensor& tensor) {
  return std::max<std::size_t>(tensor.bytes(), 1);
}

class OwnRank {
 public:
  OwnRank()
      : number_(from_environment({"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}, 0)),
        world_(from_environment({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}, 1)) {
    const int local =
        from_environment({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}, number_);
    const int device = local % std::max(count_devices(), 1);
    CUDA_CHECK(cudaSetDevice(device));
    const Deadline deadline(number_, "ncclCommInitRank");
    // Rank 0 waits at this address for the other ranks. torchrun itself uses the port before this one.
    const char* const host = std::getenv("MASTER_ADDR");
    const std::string port = std::to_string(from_environment({"MASTER_PORT"}, 29500) + 1);
    (void)setenv("NCCL_COMM_ID", ((host == nullptr ? "127.0.0.1" : host) + (":" + port)).c_str(), 0);
    ncclUniqueId id;
    check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    ncclComm_t comm = nullptr;
    check_nccl(ncclGroupStart(), "ncclGroupStart");
    check_nccl(ncclCommInitRank(&comm, world_, id, number_), "ncclCommInitRank");
    check_nccl(ncclGroupEnd(), "ncclGroupEnd");
    std::vector<Rank> ranks;
    ranks.push_back({number_, device, Comm(comm)});
    gpus_ = std::make_shared<AllGpus>(std::move(ranks));
    stream_ = make_stream();
  }

  [[nodiscard]] const Gpus& gpus() const { return gpus_; }
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] int world() const { return world_; }

  /// Verifies the variant, and prints the time of the slowest rank. Returns false if the result is wrong.
  bool run(const Variant& variant, const Problem& split, InputKind input, int repeats);

 private:
  [[nodiscard]] const Rank& rank() { return gpus_->ranks(world_).front(); }
  void wait(const std::string& step) {
    const Deadline deadline(number_, step);
    CUDA_CHECK(cudaStreamSynchronize(stream_.get()));
  }
  /// The time of a launch on this rank.
  float time_us(const Plan& plan, const std::string& name, int repeats);
  /// Returns the largest value of all ranks.
  float largest(float value);
  /// Gathers the columns of a split output from all ranks into one matrix.
  void gather_columns(const Tensor& whole, const void* part, void* to);

  int number_;
  int world_;
  Gpus gpus_;
  Stream stream_;
};

float OwnRank::largest(float value) {
  const DeviceVector<float> on_device(std::vector<float>{value});
  check_nccl(ncclAllReduce(on_device.data(), on_device.data(), 1, ncclFloat, ncclMax, rank().comm.get(),
                           stream_.get()),
             "ncclAllReduce");
  wait("ncclAllReduce");
  return to_host(on_device).front();
}

void OwnRank::gather_columns(const Tensor& whole, const void* part, void* to) {
  const std::size_t size = size_of(whole.dtype);
  const std::size_t pitch = static_cast<std::size_t>(whole.shape.cols) * size;
  const auto rows = static_cast<std::size_t>(whole.shape.rows);
  for (int root = 0; root < world_; ++root) {
    const Columns columns = columns_of(root, world_, whole.shape.cols);
    const std::size_t width = static_cast<std::size_t>(columns.count) * size;
    if (width == 0) continue;
    const DeviceMemory strip = allocate_device(width * rows);
    check_nccl(
        ncclBroadcast(part, strip.get(), width * rows, ncclChar, root, rank().comm.get(), stream_.get()),
        "ncclBroadcast");
    wait("ncclBroadcast");
    CUDA_CHECK(cudaMemcpy2D(static_cast<char*>(to) + static_cast<std::size_t>(columns.first) * size, pitch,
                            strip.get(), width, width, rows, cudaMemcpyDeviceToDevice));
  }
}

float OwnRank::time_us(const Plan& plan, const std::string& name, int repeats) {
  const Event start = make_event();
  const Event stop = make_event();
  (void)largest(0);  // so that all ranks begin together
  const Deadline deadline(number_, name + ", again and again");
  CUDA_CHECK(cudaEventRecord(start.get(), stream_.get()));
  for (int i = 0; i < repeats; ++i) {
    plan(stream_.get());
    deadline.renew();
  }
  CUDA_CHECK(cudaEventRecord(stop.get(), stream_.get()));
  CUDA_CHECK(cudaStreamSynchronize(stream_.get()));
  float milliseconds = 0;
  CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()));
  return 1e3F * milliseconds / static_cast<float>(repeats);
}

bool OwnRank::run(const Variant& variant, const Problem& split, InputKind input, int repeats) {
  Problem whole = split;
  whole.devices = 1;
  for (const Operation* one : {&softmax_operation, &log_softmax_operation, &cross_entropy_operation}) {
    if (one->name == name(split.op)) whole.op = one;
  }
  // Each rank makes the whole inputs and copies its columns of x. In the end, it gets all parts of y and
  // verifies them.
  Memory all;
  Memory own;
  std::vector<DeviceMemory> memory;
  const auto allocate = [&](std::size_t bytes) {
    memory.push_back(allocate_device(bytes));
    CUDA_CHECK(cudaMemset(memory.back().get(), poison_byte, bytes));
    return memory.back().get();
  };
  std::vector<void*> inputs;
  for (const Tensor& tensor : whole.inputs()) inputs.push_back(allocate(bytes_of(tensor)));
  whole.op->fill(whole, input, whole.seed, inputs, Space::device);
  all.inputs.assign(inputs.begin(), inputs.end());
  const Tensor x = whole.inputs().front();
  const auto [first, count] = columns_of(number_, world_, x.shape.cols);
  const std::size_t size = size_of(x.dtype);
  const std::size_t width = static_cast<std::size_t>(count) * size;
  own.inputs = all.inputs;
  void* const part = allocate(std::max<std::size_t>(width * static_cast<std::size_t>(x.shape.rows), 1));
  own.inputs.front() = part;
  if (width > 0) {
    CUDA_CHECK(cudaMemcpy2D(part, width,
                            static_cast<const char*>(inputs[0]) + static_cast<std::size_t>(first) * size,
                            static_cast<std::size_t>(x.shape.cols) * size, width,
                            static_cast<std::size_t>(x.shape.rows), cudaMemcpyDeviceToDevice));
  }
  for (const Tensor& tensor : whole.outputs()) {
    all.outputs.push_back(allocate(bytes_of(tensor)));
    own.outputs.push_back(allocate(bytes_of(tensor)));
  }
  const Workspace workspace = variant.workspace(split, {});
  own.workspaces.push_back(allocate(std::max<std::size_t>(workspace.bytes, 1)));
  CUDA_CHECK(cudaMemset(own.workspaces.front(), 0, std::max<std::size_t>(workspace.bytes, 1)));
  CUDA_CHECK(cudaDeviceSynchronize());

  const Plan plan = [&] {
    const Deadline deadline(number_, variant.name + ", preparing");
    return variant.prepare(split, {}, own);
  }();
  plan(stream_.get());
  wait(variant.name);
  if (makes_loss(split)) {
    all.outputs = own.outputs;
  } else if (split.shape.rows > 0) {
    gather_columns(whole.outputs().front(), own.outputs.front(), all.outputs.front());
  }
  Verdict verdict{true};
  if (split.shape.rows > 0) verdict = whole.op->verify(whole, all, Space::device, 1).front();
  const float slowest_us = simulator() != nullptr ? 0 : largest(time_us(plan, variant.name, repeats));
  const bool all_right = largest(verdict.correct ? 0.F : 1.F) == 0;
  if (!verdict.correct)
    std::printf("rank %d: %s: %s\n", number_, variant.name.c_str(), verdict.explanation.c_str());
  if (number_ == 0) {
    std::printf("%-18s %s, %d ranks: %s", variant.name.c_str(), describe(whole).c_str(), world_,
                all_right ? "verified" : "WRONG");
    if (simulator() == nullptr) std::printf(", %.1f us", static_cast<double>(slowest_us));
    std::printf("\n");
  }
  std::fflush(stdout);
  return all_right;
}

/// Runs the selected variants on the selected problems. Returns false if a result is wrong.
bool run_all(OwnRank& rank, const Options& options, const Device& device) {
  bool all_right = true;
  const std::vector<Variant> all = split_variants(rank.gpus());
  for (const Problem& split : problems(options, device, rank.world())) {
    for (const Variant* variant : wanted_variants(options, all)) {
      const std::string reason = variant->unsupported(split, device);
      if (reason.empty()) {
        all_right = rank.run(*variant, split, options.inputs.front(), options.repeats) && all_right;
      } else if (rank.number() == 0) {
        std::printf("%-18s not applicable: %s\n", variant->name.c_str(), reason.c_str());
      }
    }
  }
  return all_right;
}

ExitCode run(const std::vector<std::string>& arguments, const Gpus& none) {
  // The command line needs only the names of the variants. run_all() makes the variants of this rank.
  const Stage named{.name = "15_several_processes",
                    .idea = "one process per GPU",
                    .variants = split_variants(none),
                    .operations = split_operations()};
  const Options options = parse_command_line(arguments, named);
  if (options.help) {
    std::cout << help_text(named);
    return ExitCode::fine;
  }
  const Device device = open_device();
  OwnRank rank;
  try {
    return run_all(rank, options, device) ? ExitCode::fine : ExitCode::wrong_result;
  } catch (const std::exception& error) {
    // Nothing can be freed: the enqueued work may wait for ever.
    std::fprintf(stderr, "rank %d: %s %s\n", rank.number(), error.what(), rank.gpus()->why().c_str());
    _exit(static_cast<int>(ExitCode::cuda_error));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return static_cast<int>(run({argv + 1, argv + argc}, std::make_shared<AllGpus>()));
  } catch (const std::exception& error) {
    std::cerr << "15_several_processes: " << error.what() << std::endl;
    return static_cast<int>(exit_code(error));
  }
}
