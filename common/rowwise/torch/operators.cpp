// Softmax, log-softmax, their gradients and cross-entropy as operators of PyTorch: torch.ops.rowwise.*, below with their schemas.
// Nothing of a call is Python's: not its checks, its shapes for torch.compile (Meta), its gradient, or its cast under autocast.
//
// A call of an operator without a gradient costs the host, besides the launch, the memory of the result and two ways through the
// dispatcher: to the function for Autograd, and from there to the function for CUDA.
#include "common/rowwise/torch/operators.h"

#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/autocast_mode.h>
#include <ATen/cuda/EmptyTensor.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>
#include <rowwise/softmax_c.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#include <ATen/cuda/CUDAGraphsUtils.cuh>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

#include "common/rowwise/torch/loss_kernels.h"

namespace rowwise {

namespace {

using at::Tensor;
using c10::DispatchKeySet;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using Tensors = std::tuple<Tensor, Tensor>;

/// The operator with that name, of a function's type.
template <class Function>
c10::TypedOperatorHandle<Function> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

// ---- Refusals. The functions for torch.compile check their arguments, too, so that a wrong call fails when it is compiled.

rowwise_dtype dtype_of(const Tensor& x) {
  if (x.scalar_type() == at::kHalf) return ROWWISE_F16;
  return x.scalar_type() == at::kBFloat16 ? ROWWISE_BF16 : ROWWISE_F32;
}

void check(const char* name, const Tensor& x) {
  TORCH_CHECK_VALUE(x.is_cuda() || x.is_meta(), name, " is on ", x.device(), "; a CUDA tensor is needed");
  const at::ScalarType type = x.scalar_type();
  TORCH_CHECK_VALUE(type == at::kFloat || type == at::kHalf || type == at::kBFloat16, name, " is torch.",
                    c10::getDtypeNames(type).first, "; float32, float16 or bfloat16 is needed");
}

/// "[3, 10]"; a size that torch.compile does not know is "?".
std::string shape_of(const Tensor& x) {
  std::string text = "[";
  for (const c10::SymInt& size : x.sym_sizes()) {
    const std::optional<std::int64_t> known = size.maybe_as_int();
    text += (text.size() > 1 ? ", " : "") + (known ? std::to_string(*known) : "?");
  }
  return text + "]";
}

void check_like(const char* name, const Tensor& other, const char* like_name, const Tensor& like) {
  check(like_name, like);
  TORCH_CHECK_VALUE(other.device() == like.device(), "device of ", name, ": ", other.device(), ", and of ",
                    like_name, ": ", like.device());
  TORCH_CHECK_VALUE(other.scalar_type() == like.scalar_type(), "dtype of ", name, ": torch.",
                    c10::getDtypeNames(other.scalar_type()).first, ", and of ", like_name, ": torch.",
                    c10::getDtypeNames(like.scalar_type()).first);
  TORCH_CHECK_VALUE(other.sym_sizes() == like.sym_sizes(), "shape of ", name, ": ", shape_of(other),
                    ", and of ", like_name, ": ", shape_of(like));
}

void check_labels(const Tensor& x, const Tensor& labels) {
  check("x", x);
  TORCH_CHECK_VALUE(x.dim() == 2 && labels.dim() == 1 && x.sym_size(0) == labels.sym_size(0),
                    "x must be rows x columns, with a label for each row: ", shape_of(x), " and ",
                    shape_of(labels));
  TORCH_CHECK_VALUE(labels.scalar_type() == at::kLong, "labels are torch.",
                    c10::getDtypeNames(labels.scalar_type()).first, "; int64 is needed");
  TORCH_CHECK_VALUE(labels.device() == x.device(), "device of labels: ", labels.device(),
                    ", and of x: ", x.device());
}

void check_reduction(std::string_view reduction) {
  TORCH_CHECK_VALUE(reduction == "none" || reduction == "sum" || reduction == "mean", "reduction: '",
                    reduction, "'; none, sum or mean is needed");
}

// ---- Calls of the library.

/// Zero, as every call leaves it. A thread has one for each stream.
Tensor workspace_of(std::size_t bytes, const c10::cuda::CUDAStream& stream) {
  const auto make = [&] {
    Tensor memory =
        at::detail::empty_cuda({static_cast<std::int64_t>(bytes)}, at::kByte, stream.device(), {});
    C10_CUDA_CHECK(cudaMemsetAsync(memory.mutable_data_ptr(), 0, bytes, stream));
    return memory;
  };
  // In a CUDA graph: the memory is the graph's, and the graph sets it to zero.
  if (at::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None) return make();
  thread_local std::unordered_map<c10::Stream, Tensor> of_stream;
  Tensor& kept = of_stream[stream.unwrap()];
  if (!kept.defined() || kept.nbytes() < bytes) kept = make();
  return kept;
}

void check_code(int code) {
  TORCH_CHECK_VALUE(code != ROWWISE_BAD_ARGUMENT, rowwise_error());
  TORCH_CHECK(code == ROWWISE_OK, rowwise_error());
}

/// Calls function(dtype, pointers..., rows, cols, workspace, bytes, stream) on the current device, which is x's.
template <class Function, class... Pointers>
void call(Function function, rowwise_operation operation, const Tensor& x, std::int64_t rows,
          std::int64_t cols, Pointers... pointers) {
  if (rows == 0) return;
  const rowwise_dtype dtype = dtype_of(x);
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(x.get_device());
  std::size_t bytes = 0;
  check_code(rowwise_workspace_bytes(operation, dtype, rows, cols, &bytes));  // which takes 50 ns
  const Tensor workspace = bytes > 0 ? workspace_of(bytes, stream) : Tensor{};
  check_code(function(dtype, pointers..., rows, cols, bytes > 0 ? workspace.mutable_data_ptr() : nullptr,
                      bytes, stream.stream()));
}

// ---- Softmax and log-softmax.

/// The differences between the two.
struct Softmax {
  static constexpr auto name = "rowwise::softmax", backward_name = "rowwise::softmax_backward";
  static constexpr auto operation = ROWWISE_SOFTMAX, backward_operation = ROWWISE_SOFTMAX_BACKWARD;
  static constexpr auto function = rowwise_softmax;
  static constexpr auto backward_function = rowwise_softmax_backward;
  static constexpr auto torch_backward = at::_softmax_backward_data;
};
struct LogSoftmax {
  static constexpr auto name = "rowwise::log_softmax", backward_name = "rowwise::log_softmax_backward";
  static constexpr auto operation = ROWWISE_LOG_SOFTMAX, backward_operation = ROWWISE_LOG_SOFTMAX_BACKWARD;
  static constexpr auto function = rowwise_log_softmax;
  static constexpr auto backward_function = rowwise_log_softmax_backward;
  static constexpr auto torch_backward = at::_log_softmax_backward_data;
};

template <class Op>
const auto& forward_operator() {
  static const auto handle = find_operator<Tensor(const Tensor&, std::int64_t)>(Op::name);
  return handle;
}
template <class Op>
const auto& backward_operator() {
  static const auto handle =
      find_operator<Tensor(const Tensor&, const Tensor&, std::int64_t)>(Op::backward_name);
  return handle;
}

/// Calls compute(inputs..., out, rows, cols) on contiguous tensors in which dim is the last dimension; returns out with its
/// dimensions in the order of the inputs. A scalar is a row of one element.
template <class Compute, class... Inputs>
Tensor over_rows(std::int64_t dim, Compute compute, const Inputs&... inputs) {
  const auto compute_rows = [&](const Tensor& first, const auto&... others) {
    Tensor out = at::detail::empty_cuda(first.sizes(), first.scalar_type(), first.device(), {});
    const std::int64_t cols = first.dim() == 0 ? 1 : first.sizes().back();
    compute(first, others..., out, cols == 0 ? 0 : first.numel() / cols, cols);
    return out;
  };
  const std::int64_t dims = std::get<0>(std::tie(inputs...)).dim();
  dim = at::maybe_wrap_dim(dim, dims);
  if (dim + 1 >= dims && (inputs.is_contiguous() && ...)) return compute_rows(inputs...);
  return compute_rows(inputs.movedim(dim, -1).contiguous()...).movedim(-1, dim);
}

template <class Op>
Tensor forward(const Tensor& x, std::int64_t dim) {
  check("x", x);
  const c10::cuda::CUDAGuard on_device(x.device());
  const auto compute = [](const Tensor& x, const Tensor& y, std::int64_t rows, std::int64_t cols) {
    call(Op::function, Op::operation, x, rows, cols, x.const_data_ptr(), y.mutable_data_ptr());
  };
  return over_rows(dim, compute, x);
}

template <class Op>
Tensor backward(const Tensor& dy, const Tensor& y, std::int64_t dim) {
  check_like("dy", dy, "y", y);
  const c10::cuda::CUDAGuard on_device(y.device());
  const auto compute = [](const Tensor& y, const Tensor& dy, const Tensor& dx, std::int64_t rows,
                          std::int64_t cols) {
    call(Op::backward_function, Op::backward_operation, y, rows, cols, y.const_data_ptr(),
         dy.const_data_ptr(), dx.mutable_data_ptr());
  };
  return over_rows(dim, compute, y, dy);
}

/// A tensor without memory, with the sizes and strides of the result.
Tensor forward_meta(const Tensor& x, std::int64_t dim) {
  check("x", x);
  dim = at::maybe_wrap_dim(dim, x.dim());
  if (x.dim() == 0) return at::empty_symint(x.sym_sizes(), x.options());
  c10::SymDimVector sizes(x.sym_sizes());
  sizes.erase(sizes.begin() + dim);
  sizes.push_back(x.sym_size(dim));
  return at::empty_symint(sizes, x.options()).movedim(-1, dim);
}

Tensor backward_meta(const Tensor& dy, const Tensor& y, std::int64_t dim) {
  check_like("dy", dy, "y", y);
  return forward_meta(y, dim);
}

// ---- Their gradients.

void refuse_forward_mode(const Tensor& x, const char* name) {
  TORCH_CHECK_NOT_IMPLEMENTED(!torch::autograd::isFwGradDefined(x), name, " has no forward-mode derivative");
}

/// dx of softmax, or of log-softmax.
template <class Op>
struct SoftmaxGradient : torch::autograd::Node {
  SavedVariable saved_y;
  std::int64_t dim = 0;

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard lock(mutex_);
    const Tensor y = saved_y.unpack(shared_from_this());
    const Tensor& dy = gradients[0];
    if (!dy.defined()) return {Tensor{}};
    // PyTorch's own gradient has a gradient itself.
    if (c10::GradMode::is_enabled()) return {Op::torch_backward(dy, y, dim, y.scalar_type())};
    return {backward_operator<Op>().call(dy, y, dim)};
  }
  void release_variables() override { saved_y.reset_data(); }
  [[nodiscard]] std::string name() const override { return std::string(Op::name) + "'s gradient"; }
};

/// A node of the graph that refuses to be differentiated through.
template <class... Inputs>
std::shared_ptr<torch::autograd::Node> refusal(const char* name, const Inputs&... inputs) {
  return {new torch::autograd::NotImplemented(name, torch::autograd::collect_next_edges(inputs...)),
          torch::autograd::deleteNode};
}

template <class Op>
Tensor forward_with_gradient(DispatchKeySet keys, const Tensor& x, std::int64_t dim) {
  std::shared_ptr<SoftmaxGradient<Op>> node;
  if (torch::autograd::compute_requires_grad(x)) {
    node = {new SoftmaxGradient<Op>, torch::autograd::deleteNode};
    node->set_next_edges(torch::autograd::collect_next_edges(x));
    node->dim = dim;
  }
  refuse_forward_mode(x, Op::name);
  Tensor y = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    return forward_operator<Op>().redispatch(keys & c10::after_autograd_keyset, x, dim);
  }();
  if (node) {
    torch::autograd::set_history(y, node);
    node->saved_y = SavedVariable(y, true);
  }
  return y;
}

template <class Op>
Tensor backward_without_gradient(DispatchKeySet keys, const Tensor& dy, const Tensor& y, std::int64_t dim) {
  Tensor dx = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    return backward_operator<Op>().redispatch(keys & c10::after_autograd_keyset, dy, y, dim);
  }();
  if (torch::autograd::compute_requires_grad(dy, y))
    torch::autograd::set_history(dx, refusal(Op::backward_name, dy, y));
  return dx;
}

// ---- Cross-entropy.

const auto& loss_operator() {
  static const auto handle =
      find_operator<Tensor(const Tensor&, const Tensor&, std::string_view)>("rowwise::cross_entropy");
  return handle;
}
const auto& loss_gradient_operator() {
  static const auto handle =
      find_operator<Tensors(const Tensor&, const Tensor&)>("rowwise::cross_entropy_gradient");
  return handle;
}
const auto& reduce_operator() {
  static const auto handle =
      find_operator<Tensors(const Tensor&, const Tensor&, std::string_view)>("rowwise::reduce_losses");
  return handle;
}

Tensor empty_float(at::IntArrayRef sizes, const Tensor& like) {
  return at::detail::empty_cuda(sizes, at::kFloat, like.device(), {});
}

/// The sum or the mean. `factor` becomes its derivative by each loss that counts, unless it is null.
Tensor reduced(const Tensor& losses, const Tensor& labels, std::string_view reduction, float* factor) {
  const std::int64_t rows = losses.numel();
  const auto bytes = static_cast<std::int64_t>(bytes_of_parts(rows));
  const Tensor parts = bytes > 0 ? at::detail::empty_cuda({bytes}, at::kByte, losses.device(), {}) : Tensor{};
  Tensor loss = empty_float({}, losses);
  C10_CUDA_CHECK(launch_reduction(losses.const_data_ptr<float>(), labels.const_data_ptr<std::int64_t>(), rows,
                                  reduction == "mean", loss.mutable_data_ptr<float>(), factor,
                                  bytes > 0 ? parts.mutable_data_ptr() : nullptr,
                                  c10::cuda::getCurrentCUDAStream(losses.get_device())));
  return loss;
}

Tensors reduce_losses(const Tensor& losses, const Tensor& labels, std::string_view reduction) {
  const c10::cuda::CUDAGuard on_device(losses.device());
  Tensor factor = empty_float({}, losses);
  Tensor loss =
      reduced(losses.contiguous(), labels.contiguous(), reduction, factor.mutable_data_ptr<float>());
  return {std::move(loss), std::move(factor)};
}

Tensor loss(const Tensor& x, const Tensor& labels, std::string_view reduction) {
  check_reduction(reduction);
  check_labels(x, labels);
  const c10::cuda::CUDAGuard on_device(x.device());
  const Tensor rows = x.contiguous();
  const Tensor contiguous_labels = labels.contiguous();
  Tensor losses = empty_float(labels.sizes(), x);
  call(rowwise_cross_entropy, ROWWISE_CROSS_ENTROPY, rows, x.size(0), x.size(1), rows.const_data_ptr(),
       contiguous_labels.const_data_ptr<std::int64_t>(), losses.mutable_data_ptr<float>());
  return reduction == "none" ? losses : reduced(losses, contiguous_labels, reduction, nullptr);
}

Tensors loss_gradient(const Tensor& x, const Tensor& labels) {
  check_labels(x, labels);
  const c10::cuda::CUDAGuard on_device(x.device());
  const Tensor rows = x.contiguous();
  const Tensor contiguous_labels = labels.contiguous();
  Tensor losses = empty_float(labels.sizes(), x);
  Tensor dx = at::detail::empty_cuda(x.sizes(), x.scalar_type(), x.device(), {});
  call(rowwise_cross_entropy_gradient, ROWWISE_CROSS_ENTROPY_GRADIENT, rows, x.size(0), x.size(1),
       rows.const_data_ptr(), contiguous_labels.const_data_ptr<std::int64_t>(),
       losses.mutable_data_ptr<float>(), dx.mutable_data_ptr());
  return {std::move(losses), std::move(dx)};
}

Tensors reduce_losses_meta(const Tensor& losses, const Tensor& /*labels*/, std::string_view /*reduction*/) {
  return {at::empty_symint({}, losses.options()), at::empty_symint({}, losses.options())};
}
Tensor loss_meta(const Tensor& x, const Tensor& labels, std::string_view reduction) {
  check_reduction(reduction);
  check_labels(x, labels);
  const auto sizes = reduction == "none" ? labels.sym_sizes() : c10::SymIntArrayRef{};
  return at::empty_symint(sizes, x.options().dtype(at::kFloat));
}
Tensors loss_gradient_meta(const Tensor& x, const Tensor& labels) {
  return {loss_meta(x, labels, "none"), at::empty_symint(x.sym_sizes(), x.options())};
}

/// The forward pass has computed the gradient of each row's own loss; the backward pass multiplies it by d_loss.
struct LossGradient : torch::autograd::Node {
  SavedVariable saved_dx;
  SavedVariable saved_factor;  ///< undefined if there is a loss for each row
  bool is_last_use = false;

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard lock(mutex_);
    Tensor dx = saved_dx.unpack();
    const Tensor factor = saved_factor.unpack();
    const Tensor& d_loss = gradients[0];
    if (!d_loss.defined()) return {Tensor{}};
    const bool is_traced = at::isTensorSubclassLike(dx) || at::isTensorSubclassLike(d_loss);
    dx = is_traced ? traced_product(dx, d_loss, factor) : product(dx, d_loss, factor);
    if (c10::GradMode::is_enabled()) {
      const std::shared_ptr<Node> refuses(
          new torch::autograd::NotImplemented("rowwise::cross_entropy's gradient", {next_edge(0)}),
          torch::autograd::deleteNode);
      dx = dx.detach();
      torch::autograd::set_history(dx, refuses);
    }
    return {dx};
  }
  /// By PyTorch's operators, which torch.compile fuses into one kernel. The scale has dimensions: a scalar tensor would be rounded
  /// to dx's type.
  static Tensor traced_product(const Tensor& dx, const Tensor& d_loss, const Tensor& factor) {
    const Tensor scale = factor.defined() ? (d_loss * factor).view({1, 1}) : d_loss.unsqueeze(1);
    return dx.mul(scale).to(dx.scalar_type());
  }
  [[nodiscard]] Tensor product(Tensor dx, const Tensor& d_loss, const Tensor& factor) const {
    const bool begins_pack = reinterpret_cast<std::uintptr_t>(dx.const_data_ptr()) % 16 == 0;
    if (!is_last_use || !dx.is_contiguous() || !begins_pack) dx = dx.clone(at::MemoryFormat::Contiguous);
    if (!factor.defined()) return dx.mul_(d_loss.unsqueeze(1));
    const c10::cuda::CUDAGuard on_device(dx.device());
    C10_CUDA_CHECK(launch_scaling(dtype_of(dx), dx.mutable_data_ptr(), dx.numel(),
                                  d_loss.const_data_ptr<float>(), factor.const_data_ptr<float>(),
                                  c10::cuda::getCurrentCUDAStream(dx.get_device())));
    return dx;
  }
  /// PyTorch calls it before apply() if the graph is not kept. Then dx is multiplied where it is, which saves memory.
  void will_release_variables() override { is_last_use = true; }
  void release_variables() override {
    saved_dx.reset_data();
    saved_factor.reset_data();
  }
  [[nodiscard]] std::string name() const override { return "rowwise::cross_entropy's gradient"; }
};

Tensor loss_with_gradient(DispatchKeySet keys, const Tensor& x, const Tensor& labels,
                          std::string_view reduction) {
  refuse_forward_mode(x, "rowwise::cross_entropy");
  const bool requires_grad = torch::autograd::compute_requires_grad(x);
  Tensor result;
  Tensor dx;
  Tensor factor;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    if (!requires_grad) {
      return loss_operator().redispatch(keys & c10::after_autograd_keyset, x, labels, reduction);
    }
    check_reduction(reduction);
    std::tie(result, dx) = loss_gradient_operator().call(x, labels);
    if (reduction != "none") std::tie(result, factor) = reduce_operator().call(result, labels, reduction);
  }
  const std::shared_ptr<LossGradient> node(new LossGradient, torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(x));
  node->saved_dx = SavedVariable(dx, false);
  if (factor.defined()) node->saved_factor = SavedVariable(factor, false);
  torch::autograd::set_history(result, node);
  return result;
}

Tensors loss_gradient_without_gradient(DispatchKeySet keys, const Tensor& x, const Tensor& labels) {
  Tensors result = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    return loss_gradient_operator().redispatch(keys & c10::after_autograd_keyset, x, labels);
  }();
  if (torch::autograd::compute_requires_grad(x)) {
    const auto refuses = refusal("rowwise::cross_entropy_gradient", x);
    torch::autograd::set_history(std::get<0>(result), refuses);
    torch::autograd::set_history(std::get<1>(result), refuses);
  }
  return result;
}

// ---- Under autocast softmax and log-softmax compute in float32, as PyTorch's own. The loss is in float32 in any case.

const c10::DispatchKeySet autocast(c10::DispatchKey::AutocastCUDA);

template <class Op>
Tensor forward_in_float(const Tensor& x, std::int64_t dim) {
  const c10::impl::ExcludeDispatchKeyGuard no_more(autocast);
  return forward_operator<Op>().call(at::autocast::cached_cast(at::kFloat, x, at::kCUDA), dim);
}

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t dim) {
  return forward_operator<Softmax>().call(x, dim);
}
Tensor log_softmax(const Tensor& x, std::int64_t dim) {
  return forward_operator<LogSoftmax>().call(x, dim);
}
Tensor cross_entropy(const Tensor& x, const Tensor& labels, std::string_view reduction) {
  return loss_operator().call(x, labels, reduction);
}

TORCH_LIBRARY(rowwise, library) {
  library.def("softmax(Tensor x, int dim) -> Tensor");
  library.def("log_softmax(Tensor x, int dim) -> Tensor");
  library.def("softmax_backward(Tensor dy, Tensor y, int dim) -> Tensor");
  library.def("log_softmax_backward(Tensor dy, Tensor y, int dim) -> Tensor");
  // The loss of each row in float32, or their sum or mean; and the loss with the gradient of each row's own loss: x is read once.
  library.def("cross_entropy(Tensor x, Tensor labels, str reduction=\"none\") -> Tensor");
  library.def("cross_entropy_gradient(Tensor x, Tensor labels) -> (Tensor, Tensor)");
  library.def("reduce_losses(Tensor losses, Tensor labels, str reduction) -> (Tensor, Tensor)");
}

// For CUDA; and for all other devices, whose tensors it refuses.
TORCH_LIBRARY_IMPL(rowwise, CompositeExplicitAutograd, library) {
  library.impl("softmax", TORCH_FN(forward<Softmax>));
  library.impl("log_softmax", TORCH_FN(forward<LogSoftmax>));
  library.impl("softmax_backward", TORCH_FN(backward<Softmax>));
  library.impl("log_softmax_backward", TORCH_FN(backward<LogSoftmax>));
  library.impl("cross_entropy", TORCH_FN(loss));
  library.impl("cross_entropy_gradient", TORCH_FN(loss_gradient));
}
TORCH_LIBRARY_IMPL(rowwise, CUDA, library) {
  library.impl("reduce_losses", TORCH_FN(reduce_losses));
}

TORCH_LIBRARY_IMPL(rowwise, Meta, library) {
  library.impl("softmax", TORCH_FN(forward_meta));
  library.impl("log_softmax", TORCH_FN(forward_meta));
  library.impl("softmax_backward", TORCH_FN(backward_meta));
  library.impl("log_softmax_backward", TORCH_FN(backward_meta));
  library.impl("cross_entropy", TORCH_FN(loss_meta));
  library.impl("cross_entropy_gradient", TORCH_FN(loss_gradient_meta));
  library.impl("reduce_losses", TORCH_FN(reduce_losses_meta));
}

TORCH_LIBRARY_IMPL(rowwise, Autograd, library) {
  library.impl("softmax", TORCH_FN(forward_with_gradient<Softmax>));
  library.impl("log_softmax", TORCH_FN(forward_with_gradient<LogSoftmax>));
  library.impl("softmax_backward", TORCH_FN(backward_without_gradient<Softmax>));
  library.impl("log_softmax_backward", TORCH_FN(backward_without_gradient<LogSoftmax>));
  library.impl("cross_entropy", TORCH_FN(loss_with_gradient));
  library.impl("cross_entropy_gradient", TORCH_FN(loss_gradient_without_gradient));
}

TORCH_LIBRARY_IMPL(rowwise, AutocastCUDA, library) {
  library.impl("softmax", TORCH_FN(forward_in_float<Softmax>));
  library.impl("log_softmax", TORCH_FN(forward_in_float<LogSoftmax>));
}

}  // namespace rowwise
