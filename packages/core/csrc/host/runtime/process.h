#pragma once
// What a program sets for its whole process: operators of its own, settings, stacks of errors.
#include <string>
#include <vector>

namespace proa {

/// Opens a shared library of operators written against proa/extension.h and registers them: models
/// that are loaded thereafter may name them. Returns their names. The same library twice registers
/// once. Throws EngineError: kInvalidArgument if there is no such library, it holds no operators or
/// wrong ones, or it was built for another version of that header.
std::vector<std::string> load_operators(const std::string& path);

/// Sets what a variable of the environment of that name would: PROA_NUM_THREADS at any time;
/// PROA_ISA, PROA_BF16, PROA_CACHES and PROA_WINOGRAD before kernels are chosen, which the first
/// model does, and which reports a value that it does not know; FLAGS_call_stack_level (0 to 2; 2
/// lets errors note the C++ calls that led to them). Throws EngineError: kInvalidArgument for
/// another name, for a value that is no number where one is wanted, and if it is too late. No other
/// thread may read the environment meanwhile.
void set_process_setting(const std::string& name, const std::string& value);
/// What is set, empty if nothing is. Throws EngineError as above for another name.
std::string process_setting(const std::string& name);

/// Whether errors note the C++ calls that led to them.
void set_error_stacks(bool on);
/// Return addresses of the calls that lead here, if set_error_stacks(true) was called, else none.
std::vector<void*> error_frames();
/// Text of return addresses, one a line, names demangled.
std::string stack_text(void* const* frames, int count);

}  // namespace proa
