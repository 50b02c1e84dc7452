#pragma once
// State of the whole process: custom operators, settings, stack traces of errors.
#include <string>
#include <vector>

namespace proa {

/// Opens a shared library of custom operators, written against proa/extension.h, and registers them
/// for models that are loaded afterwards. Returns their names. Loading a library again has no
/// effect. Throws EngineError: kInvalidArgument if there is no such library, if it has no operators
/// or invalid ones, or if it was built for another version of that header.
std::vector<std::string> load_operators(const std::string& path);

/// Has the effect of the environment variable of that name: PROA_NUM_THREADS at any time; PROA_ISA,
/// PROA_BF16, PROA_AMX, PROA_CACHES and PROA_WINOGRAD until kernels are selected, when the first
/// model is loaded (which then refuses an unknown value); FLAGS_call_stack_level (0 to 2; with 2
/// errors record a stack trace). Throws EngineError: kInvalidArgument for another name, for a value
/// that is not a number where one is expected, and for a kernel setting after the first model. No
/// other thread may read the environment meanwhile.
void set_process_setting(const std::string& name, const std::string& value);
/// The value of a setting, empty if it is not set. Throws EngineError as above for another name.
std::string process_setting(const std::string& name);

/// Whether errors record a stack trace.
void set_error_stacks(bool on);
/// The return addresses of the current stack; empty unless set_error_stacks(true) was called.
std::vector<void*> error_frames();
/// Text of return addresses, one a line, names demangled.
std::string stack_text(void* const* frames, int count);

}  // namespace proa
