// Runs each instruction of instructions.txt with edge values and compares the results with those of a GPU.
//
//   instructions_test                compares the device it runs on, GPU or simulator, with the recorded
//   results instructions_test --record FILE  writes the results of a GPU instructions_test --print prints the
//   results of any device, in the same format instructions_test --print-ptx    prints all kernels, for ptxas
//   ... --only TEXT                  the instructions whose PTX contains this
#include <cuda_runtime.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "common/sim/tests/cuda_check.h"
#include "common/sim/tests/instruction_table.h"

namespace {

constexpr int fine = 0;
constexpr int wrong = 1;
constexpr int bad_usage = 2;
constexpr int no_device = 3;

/// [result][case]
using Results = std::vector<std::array<std::uint64_t, case_count>>;

struct Options {
  std::string record;
  std::string only;
  bool print = false;
  bool print_ptx = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--print") {
      options.print = true;
    } else if (option == "--print-ptx") {
      options.print_ptx = true;
    } else if ((option == "--record" || option == "--only") && i + 1 < argc) {
      (option == "--record" ? options.record : options.only) = argv[++i];
    } else {
      throw std::invalid_argument("unknown option or missing value: " + option +
                                  ". accepted: --record FILE, --print, --print-ptx, --only TEXT");
    }
  }
  return options;
}

#if CUDART_VERSION >= 12080

using Library = Owner<cudaLibrary_t, cudaLibraryUnload>;

Library load(const std::string& ptx) {
  std::array<char, 4096> log{};
  std::array options{cudaJitErrorLogBuffer, cudaJitErrorLogBufferSizeBytes};
  std::array<void*, 2> values{log.data(),
                              reinterpret_cast<void*>(log.size())};  // NOLINT: that is how numbers are given
  cudaLibrary_t library = nullptr;
  const cudaError_t error = cudaLibraryLoadData(&library, ptx.c_str(), options.data(), values.data(),
                                                options.size(), nullptr, nullptr, 0);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    throw std::runtime_error(std::string(cudaGetErrorName(error)) + " " + log.data());
  }
  return Library(library);
}

/// Memory of the device that all instructions use, one after the other.
class Runner {
 public:
  Results run(cudaLibrary_t library, const Instruction& instruction) {
    cudaKernel_t kernel = nullptr;
    CUDA_CHECK(cudaLibraryGetKernel(&kernel, library, instruction.kernel.c_str()));
    std::array<std::array<std::uint64_t, case_count>, most_operands> arguments{};
    const auto count = static_cast<int>(instruction.arguments.size());
    for (int k = 0; k < count; ++k) {
      const auto index = static_cast<std::size_t>(k);
      for (int i = 0; i < case_count; ++i) {
        arguments.at(index).at(static_cast<std::size_t>(i)) =
            argument_value(*instruction.arguments[index], k, count, i);
      }
    }
    std::array<unsigned char, scratch_bytes> scratch{};
    for (std::size_t i = 0; i < scratch.size(); ++i) scratch.at(i) = static_cast<unsigned char>(i * 73 + 11);
    CUDA_CHECK(cudaMemcpy(arguments_.get(), arguments.data(), operand_bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(scratch_.get(), scratch.data(), scratch.size(), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(results_.get(), 0, operand_bytes));
    std::array<void*, 3> pointers{arguments_.get(), results_.get(), scratch_.get()};
    std::array<void*, 3> parameters{pointers.data(), pointers.data() + 1, pointers.data() + 2};
    CUDA_CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(case_count),
                                parameters.data(), 0, nullptr));
    CUDA_CHECK(cudaDeviceSynchronize());
    Results results(instruction.results.size());
    CUDA_CHECK(cudaMemcpy(results.data(), results_.get(), results.size() * sizeof results[0],
                          cudaMemcpyDeviceToHost));
    return results;
  }

 private:
  static constexpr std::size_t operand_bytes = sizeof(std::uint64_t) * most_operands * case_count;
  DeviceMemory arguments_ = allocate_device(operand_bytes);
  DeviceMemory results_ = allocate_device(operand_bytes);
  DeviceMemory scratch_ = allocate_device(scratch_bytes);
};

// ---- The recorded file: keys of instructions, one a line, and below them ": " and the results that they
// have in common, hexadecimal, with "," between %r, %s, ...

constexpr const char* values_line = "values ";

class Records {
 public:
  void add(const Instruction& instruction, const Results& results) {
    std::ostringstream text;
    text << ':' << std::hex;
    for (std::size_t k = 0; k < results.size(); ++k) {
      if (k > 0) text << " ,";
      for (const std::uint64_t value : results[k]) text << ' ' << value;
    }
    auto& keys = keys_[text.str()];
    if (keys.empty()) order_.push_back(text.str());
    keys.push_back(instruction.key());
  }
  void write(std::ostream& out) const {
    for (const std::string& results : order_) {
      for (const std::string& key : keys_.at(results)) out << key << '\n';
      out << results << '\n';
    }
  }

 private:
  std::map<std::string, std::vector<std::string>> keys_;
  std::vector<std::string> order_;
};

Results parse_results(const std::string& text) {
  Results results(1);
  std::size_t i = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == ",") {
      results.emplace_back();
      i = 0;
    } else {
      results.back().at(i++) = std::stoull(word, nullptr, 16);
    }
  }
  return results;
}

std::map<std::string, Results> read_recorded(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("no recorded results: " + path + "; write them on a GPU with --record");
  std::map<std::string, Results> recorded;
  std::vector<std::string> keys;
  std::string checksum;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line.rfind(values_line, 0) == 0) {
      checksum = line.substr(std::strlen(values_line));
    } else if (line[0] != ':') {
      keys.push_back(line);
    } else {
      const Results results = parse_results(line.substr(1));
      for (const std::string& key : keys) recorded[key] = results;
      keys.clear();
    }
  }
  if (checksum != std::to_string(checksum_of_values())) {
    throw std::runtime_error(
        path + " was recorded with other values than these; record again on a GPU with --record");
  }
  return recorded;
}

/// Says where the results differ, at most twice for an instruction.
bool compare(const Instruction& instruction, const Results& got, const Results& recorded) {
  int differences = 0;
  for (std::size_t k = 0; k < got.size(); ++k) {
    for (std::size_t i = 0; i < case_count; ++i) {
      const std::uint64_t expected = recorded.at(k).at(i);
      if (agrees(*instruction.results[k], instruction.tolerance, got[k][i], expected)) continue;
      if (++differences > 2) continue;
      std::printf("WRONG line %zu: %s   case %zu, %%%c:", instruction.line, instruction.ptx.c_str(), i,
                  static_cast<char>('r' + k));
      for (std::size_t a = 0; a < instruction.arguments.size(); ++a) {
        const int count = static_cast<int>(instruction.arguments.size());
        std::printf(
            " %%%c=%" PRIx64, static_cast<char>('a' + a),
            argument_value(*instruction.arguments[a], static_cast<int>(a), count, static_cast<int>(i)));
      }
      std::printf(" got %" PRIx64 ", recorded %" PRIx64 "\n", got[k][i], expected);
    }
  }
  if (differences > 2) std::printf("      and %d more\n", differences - 2);
  return differences == 0;
}

// ---- The device

/// "" with a device that runs the table; else why not.
std::string why_no_device(cudaDeviceProp& properties) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    return std::string("no usable NVIDIA GPU: ") +
           cudaGetErrorString(error == cudaSuccess ? cudaErrorNoDevice : error);
  }
  CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  if (properties.major >= 9) return "";
  return "no usable NVIDIA GPU: the table needs compute capability 9.0, and " + std::string(properties.name) +
         " has " + std::to_string(properties.major) + "." + std::to_string(properties.minor);
}

/// The first line that the driver has to say about itself, or its CUDA version.
std::string driver() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  if (std::getline(file, line)) return line;
  int version = 0;
  CUDA_CHECK(cudaDriverGetVersion(&version));
  return "driver of CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int run(const Options& options, const std::vector<Instruction>& instructions) {
  cudaDeviceProp properties{};
  if (const std::string why_not = why_no_device(properties); !why_not.empty()) {
    std::printf("%s\n", why_not.c_str());
    return no_device;
  }
  const bool simulated = std::strstr(properties.name, "simulator") != nullptr;
  const bool records = !options.record.empty();
  if (records && simulated) throw std::invalid_argument("--record needs a GPU, and this is the simulator");
  std::map<std::string, Results> recorded;
  if (!records && !options.print) recorded = read_recorded(RECORDED_RESULTS);

  Records made;
  Runner runner;
  std::size_t right = 0;
  std::size_t failures = 0;
  const auto fail = [&](const Instruction& instruction, const std::string& why) {
    std::printf("WRONG line %zu: %s   %s\n", instruction.line, instruction.ptx.c_str(), why.c_str());
    ++failures;
  };
  for (std::size_t begin = 0; begin < instructions.size();) {  // one library per line
    std::size_t end = begin;
    std::string ptx = module_header();
    for (; end < instructions.size() && instructions[end].line == instructions[begin].line; ++end) {
      ptx += kernel_text(instructions[end]);
    }
    Library library;
    try {
      library = load(ptx);
    } catch (const std::runtime_error& error) {
      for (std::size_t i = begin; i < end; ++i) fail(instructions[i], error.what());
    }
    for (; begin < end; ++begin) {
      const Instruction& instruction = instructions[begin];
      if (!library) continue;
      Results results;
      try {
        results = runner.run(library.get(), instruction);
      } catch (const std::runtime_error& error) {
        fail(instruction, error.what());
        continue;
      }
      if (records || options.print) {
        made.add(instruction, results);
      } else if (const auto found = recorded.find(instruction.key()); found == recorded.end()) {
        fail(instruction, "is not recorded; record again on a GPU with --record");
        continue;
      } else if (!compare(instruction, results, found->second)) {
        ++failures;
        continue;
      }
      ++right;
    }
  }
  if (records || options.print) {
    std::ofstream file;
    if (records) file.open(options.record);
    std::ostream& out = records ? file : std::cout;
    out << "# Results of the instructions of instructions.txt, by instructions_test, on: " << properties.name
        << ", " << (simulated ? "which is no GPU" : driver()) << "\n"
        << values_line << checksum_of_values() << '\n';
    made.write(out);
    if (!out.flush()) throw std::runtime_error("cannot write " + options.record);
  }
  std::fprintf(options.print ? stderr : stdout,
               "%zu instructions with %d cases each on %s: %zu %s, %zu wrong\n", instructions.size(),
               case_count, properties.name, right,
               records         ? "recorded"
               : options.print ? "printed"
                               : "as recorded",
               failures);
  return failures == 0 && right > 0 ? fine : wrong;
}

#else

int run(const Options& /*options*/, const std::vector<Instruction>& /*instructions*/) {
  std::printf("skipped: loading PTX text (cudaLibraryLoadData) needs the toolkit of CUDA 12.8 or newer\n");
  return no_device;
}

#endif

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  std::vector<Instruction> instructions = read_instruction_table(INSTRUCTION_TABLE);
  std::erase_if(instructions,
                [&](const Instruction& i) { return i.ptx.find(options.only) == std::string::npos; });
  if (options.print_ptx) {
    std::printf("%s", module_header().c_str());
    for (const Instruction& instruction : instructions) std::printf("%s", kernel_text(instruction).c_str());
    return fine;
  }
  return run(options, instructions);
} catch (const std::invalid_argument& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return bad_usage;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return wrong;
}
