#include "common/rowwise/dispatch/choice.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/kernel/cuda_check.h"
#include "common/rowwise/dispatch/for_each_kernel.h"

namespace rowwise {

namespace {

// The text of each table of the folder `tables`, in the order of their names. CMake writes the array.
#include <tables.inc>

/// Matrices that have a list of lines each: their rows consist of whole packs of 16 bytes; or would, but a matrix begins within a
/// pack; or they consist of packs of 8 bytes; or neither.
enum Part { in_packs, displaced, in_halves, others, parts };
constexpr std::array<std::string_view, parts> part_names{"packs", "displaced", "halves", "others"};

Part part_of(const Matrix& matrix) {
  if (matrix.row_bytes() % 16 == 0) return matrix.alignment == 16 ? in_packs : displaced;
  return matrix.in_packs(8) ? in_halves : others;
}

/// By bytes of an element: 4 or 2.
template <class Kernel>
using Lines = std::array<std::array<std::vector<Choice<Kernel>>, parts>, 2>;

struct Table {
  std::string gpu;
  int multiprocessors = 0;
  std::tuple<Lines<Forward>, Lines<Backward>, Lines<Loss>, Lines<Gradient>> lines;
};

/// By name.
template <class Kernel>
const std::map<std::string, Kernel>& kernels() {
  static const std::map<std::string, Kernel> all = [] {
    std::map<std::string, Kernel> found;
    for_each_kernel([&](auto kernel, const char* /*kind*/, const char* name, const char* /*idea*/) {
      if constexpr (std::is_same_v<decltype(kernel), Kernel>) found[name] = kernel;
    });
    return found;
  }();
  return all;
}

/// A number, or "any".
bool read(std::string_view word, std::int64_t& number) {
  if (word == "any") {
    number = any;
    return true;
  }
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc{} && end == word.data() + word.size() && number > 0;
}

/// Reads a table as common/tools/measure/choices.py writes it.
class Reader {
 public:
  Reader(std::string source, std::istream& text) : source_(std::move(source)) {
    std::string line;
    while (std::getline(text, line)) {
      ++number_;
      std::istringstream words(line);
      std::string first;
      if (!(words >> first) || first[0] == '#') continue;
      if (first == "gpu") {
        std::getline(words >> std::ws, table_.gpu);
      } else if (first == "multiprocessors") {
        if (!(words >> table_.multiprocessors) || table_.multiprocessors < 1)
          bad("the number of multiprocessors is missing");
      } else if (first == "rows") {
        if (read_rows_ == nullptr) bad("rows of no operation");
        (this->*read_rows_)(words);
      } else {
        begin_part(first, words);
      }
    }
    if (table_.gpu.empty() || table_.multiprocessors == 0) bad("the table names no GPU");
    std::apply([&](const auto&... all) { (check(all), ...); }, table_.lines);
  }

  [[nodiscard]] Table table() && { return std::move(table_); }

 private:
  [[noreturn]] void bad(const std::string& what) const {
    throw std::invalid_argument(source_ + ":" + std::to_string(number_) + ": " + what);
  }

  /// "Forward 4 packs"
  void begin_part(const std::string& kind, std::istringstream& words) {
    std::string name;
    if (!(words >> element_bytes_ >> name) || (element_bytes_ != 4 && element_bytes_ != 2))
      bad("'" + kind + "' is not understood");
    part_ = 0;
    while (part_ < part_names.size() && part_names[part_] != name) ++part_;
    if (part_ == part_names.size()) bad("'" + name + "' is none of packs, displaced, halves and others");
    read_rows_ = nullptr;
    for_each_kernel([&](auto kernel, const char* of_kernel, const char* /*name*/, const char* /*idea*/) {
      if (kind == of_kernel) read_rows_ = &Reader::read_rows<decltype(kernel)>;
    });
    if (read_rows_ == nullptr) bad("'" + kind + "' is none of Forward, Backward, Loss and Gradient");
  }

  /// "128: 18 two_or_three_packs, any fused": up to 128 rows; then the columns and the kernel of each line.
  template <class Kernel>
  void read_rows(std::istringstream& words) {
    std::string most_rows;
    std::string most_cols;
    std::string name;
    Choice<Kernel> choice{};
    if (!(words >> most_rows) || !most_rows.ends_with(':')) bad("rows N: is missing");
    most_rows.pop_back();
    if (!read(most_rows, choice.most_rows)) bad("'" + most_rows + "' is no number of rows");
    while (words >> most_cols >> name) {
      if (name.ends_with(',')) name.pop_back();
      if (!read(most_cols, choice.most_cols)) bad("'" + most_cols + "' is no number of columns");
      const auto found = kernels<Kernel>().find(name);
      if (found == kernels<Kernel>().end()) bad("'" + name + "' is no kernel");
      choice.kernel = found->second;
      if (!lines_of<Kernel>().empty() && lines_of<Kernel>().back().most_rows > choice.most_rows)
        bad("rows must not decrease");
      lines_of<Kernel>().push_back(choice);
    }
  }

  template <class Kernel>
  std::vector<Choice<Kernel>>& lines_of() {
    return std::get<Lines<Kernel>>(table_.lines)[element_bytes_ == 4 ? 0 : 1][part_];
  }

  template <class Kernel>
  void check(const std::array<std::array<std::vector<Choice<Kernel>>, parts>, 2>& lists) const {
    for (const auto& of_size : lists) {
      for (const auto& list : of_size) {
        if (list.empty() || list.back().most_rows != any || list.back().most_cols != any) {
          bad("a list does not end with a line for any rows and columns");
        }
      }
    }
  }

  std::string source_;
  Table table_;
  int number_ = 0;
  int element_bytes_ = 0;
  std::size_t part_ = 0;
  void (Reader::*read_rows_)(std::istringstream&) = nullptr;
};

struct Current {
  Table table;
  std::string name;
};

/// Throws CudaError.
std::string name_of_gpu(int device) {
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  return static_cast<const char*>(properties.name);
}

Current table_of(int device) {
  const std::string gpu = name_of_gpu(device);
  if (const char* const path = std::getenv("ROWWISE_TABLE")) {
    std::ifstream file(path);
    if (!file) throw std::invalid_argument(std::string("ROWWISE_TABLE: ") + path + " cannot be read");
    Table table = Reader(path, file).table();
    if (table.gpu != gpu) {
      throw std::invalid_argument(std::string("ROWWISE_TABLE: ") + path + " is of " + table.gpu +
                                  ", and the device is " + gpu + "; ./run tune writes one for it");
    }
    return {std::move(table), "the table of " + gpu + " in " + path};
  }
  std::optional<Table> first;
  for (const char* const text : compiled_in) {
    std::istringstream stream(text);
    Table table = Reader("the library's table", stream).table();
    if (table.gpu == gpu) return {std::move(table), "the table of " + gpu + ", which is compiled in"};
    if (!first) first = std::move(table);
  }
  std::string name = "the table of " + first->gpu + ", scaled from " +
                     std::to_string(first->multiprocessors) + " multiprocessors; ./run tune writes one for " +
                     gpu;
  return {*std::move(first), std::move(name)};
}

/// The current device's table, which the first call on that device reads.
const Current& current_table() {
  thread_local int device_of_last_call = -1;
  thread_local const Current* of_last_call = nullptr;
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  if (of_last_call != nullptr && device == device_of_last_call) return *of_last_call;
  static std::mutex mutex;
  static std::map<int, Current> all;
  const std::lock_guard lock(mutex);
  auto found = all.find(device);
  if (found == all.end()) found = all.emplace(device, table_of(device)).first;
  device_of_last_call = device;
  of_last_call = &found->second;
  return found->second;
}

}  // namespace

template <class Kernel>
Choices<Kernel> choices_for(const Matrix& matrix) {
  const Table& table = current_table().table;
  return {std::get<Lines<Kernel>>(table.lines)[matrix.element_bytes == 4 ? 0 : 1][part_of(matrix)],
          table.multiprocessors};
}
template Choices<Forward> choices_for(const Matrix& matrix);
template Choices<Backward> choices_for(const Matrix& matrix);
template Choices<Loss> choices_for(const Matrix& matrix);
template Choices<Gradient> choices_for(const Matrix& matrix);

const std::string& name_of_table() {
  return current_table().name;
}

}  // namespace rowwise
