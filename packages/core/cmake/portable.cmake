# proa_portable(<target> CODEGEN <options...> ISAS <isa...>)
#
# A static library of csrc/portable with generated tables: what every runtime links. Kernel files are
# compiled once per ISA; `<op>.<isa>.cc` replaces `<op>.cc` for that ISA. The ISA `native` is the best
# one of the CPU that builds.

set(PROA_CORE_DIR ${CMAKE_CURRENT_LIST_DIR}/..)
get_filename_component(PROA_CORE_DIR ${PROA_CORE_DIR} ABSOLUTE)
find_package(Python3 COMPONENTS Interpreter REQUIRED)

find_program(PROA_CCACHE ccache)
if(PROA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER AND NOT DEFINED ENV{CCACHE_DISABLE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PROA_CCACHE})
endif()
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache")
  # It looks a file up by its text, which precompiled headers keep from it.
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

set(PROA_FLAGS_scalar "")
set(PROA_FLAGS_avx2 -mavx2 -mfma -mf16c -mbmi2 -mpopcnt)
set(PROA_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mfma -mf16c -mbmi2
    -mpopcnt -mprefer-vector-width=512)
set(PROA_FLAGS_neon "")
set(PROA_FLAGS_neondot -march=armv8.2-a+dotprod)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(PROA_ALL_ISAS scalar avx2 avx512)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(PROA_ALL_ISAS scalar neon neondot)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "arm")
  set(PROA_ALL_ISAS scalar neon)
  set(PROA_FLAGS_neon -mfpu=neon-vfpv4)
else()
  set(PROA_ALL_ISAS scalar)
endif()

# Warnings are errors where the tests are built: another compiler's must not keep a user from a wheel.
set(PROA_WARNINGS -Wall -Wextra)
if(PROA_BUILD_TESTS)
  list(APPEND PROA_WARNINGS -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # & and | of vectors are what they look like; GCC's pragmas and attributes are for GCC.
  list(APPEND PROA_WARNINGS -Wno-bitwise-conditional-parentheses -Wno-bitwise-instead-of-logical
       -Wno-unknown-pragmas -Wno-unknown-attributes)
endif()
# Finite arithmetic is left as written (no -ffast-math); only errno and traps are given up.
set(PROA_MATH_FLAGS -fno-math-errno -fno-trapping-math)
set(PROA_SECTION_FLAGS -ffunction-sections -fdata-sections -fvisibility=hidden
    -fvisibility-inlines-hidden)

function(proa_link_headers directory)
  # "proa/base/view.h" is in csrc/portable/base; the links make the one from the other.
  file(MAKE_DIRECTORY ${directory}/proa)
  foreach(name base simd kernels shapes model exec)
    if(NOT EXISTS ${directory}/proa/${name})
      file(CREATE_LINK ${PROA_CORE_DIR}/csrc/portable/${name} ${directory}/proa/${name} SYMBOLIC)
    endif()
  endforeach()
  foreach(name extension extension_abi.h extension.h)
    if(EXISTS ${PROA_CORE_DIR}/include/proa/${name} AND NOT EXISTS ${directory}/proa/${name})
      file(CREATE_LINK ${PROA_CORE_DIR}/include/proa/${name} ${directory}/proa/${name} SYMBOLIC)
    endif()
  endforeach()
  foreach(name runtime train)
    if(EXISTS ${PROA_CORE_DIR}/csrc/host/${name} AND NOT EXISTS ${directory}/proa/${name})
      file(CREATE_LINK ${PROA_CORE_DIR}/csrc/host/${name} ${directory}/proa/${name} SYMBOLIC)
    endif()
  endforeach()
endfunction()

# Sets <result> to the instruction sets to build for the CPU of this machine alone.
function(proa_native_isas result)
  if(CMAKE_CROSSCOMPILING)
    message(FATAL_ERROR "[proa] expected PROA_ISAS to name the target's instruction sets, got native")
  endif()
  if(NOT PROA_NATIVE_ISA)
    # Runs what the library itself runs when it is loaded.
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/native_isa)
    proa_link_headers(${folder}/include)
    file(WRITE ${folder}/main.cc "#include <stdio.h>\n#include \"proa/base/cpu.cc\"\n"
         "int main() { printf(\"%s\", proa::isa_name(proa::cpu_isa())); }\n")
    try_run(status compiled ${folder} ${folder}/main.cc
            CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${folder}/include -DCMAKE_CXX_STANDARD=17
            COMPILE_OUTPUT_VARIABLE log RUN_OUTPUT_VARIABLE isa)
    if(NOT compiled OR NOT status EQUAL 0)
      message(FATAL_ERROR "[proa] expected a program that prints the CPU's instruction set, got:\n${log}")
    endif()
    set(PROA_NATIVE_ISA ${isa} CACHE INTERNAL "The best instruction set of this machine")
    message(STATUS "PROA_ISAS=native is ${isa}")
  endif()
  set(isas ${PROA_NATIVE_ISA})
  if(isas STREQUAL "neondot")
    list(PREPEND isas neon) # its table has int8 products alone
  endif()
  set(${result} ${isas} PARENT_SCOPE)
endfunction()

function(proa_portable target)
  cmake_parse_arguments(ARG "" "" "CODEGEN;ISAS" ${ARGN})
  if(ARG_ISAS STREQUAL "native")
    proa_native_isas(ARG_ISAS)
  endif()
  set(gen ${CMAKE_CURRENT_BINARY_DIR}/${target}_gen)
  proa_link_headers(${gen}/include)
  list(JOIN ARG_ISAS "," isas)
  file(GLOB_RECURSE schema CONFIGURE_DEPENDS ${PROA_CORE_DIR}/src/proa/schema/*.py
       ${PROA_CORE_DIR}/codegen/*.py)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${PROA_CORE_DIR}/csrc/portable/kernels/*.cc
       ${PROA_CORE_DIR}/csrc/portable/simd/*.cc)
  set(command ${Python3_EXECUTABLE} ${PROA_CORE_DIR}/codegen --out ${gen} --isas ${isas} ${ARG_CODEGEN})
  if(PROA_ALLOW_MISSING_KERNELS)
    list(APPEND command --kernels ${PROA_CORE_DIR}/csrc/portable/kernels)
  endif()
  execute_process(COMMAND ${command} RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "codegen failed")
  endif()
  include(${gen}/kernel_folders.cmake)
  # A change of the table generates and configures again.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${schema})
  if(PROA_ALLOW_MISSING_KERNELS)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${kernels})
  endif()

  file(GLOB_RECURSE plain CONFIGURE_DEPENDS ${PROA_CORE_DIR}/csrc/portable/base/*.cc
       ${PROA_CORE_DIR}/csrc/portable/shapes/*.cc ${PROA_CORE_DIR}/csrc/portable/model/*.cc
       ${PROA_CORE_DIR}/csrc/portable/exec/*.cc)
  add_library(${target} STATIC ${plain} ${gen}/op_table.cc ${gen}/isa_table.cc)
  target_include_directories(${target} PUBLIC ${gen}/include)
  set(flags ${PROA_WARNINGS} ${PROA_SECTION_FLAGS} ${PROA_MATH_FLAGS} -fno-exceptions -fno-rtti
      -fno-threadsafe-statics)
  target_compile_options(${target} PRIVATE ${flags})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_STANDARD 17
                        CXX_STANDARD_REQUIRED ON)
  target_compile_features(${target} PUBLIC cxx_std_17)

  foreach(isa ${ARG_ISAS})
    set(sources "")
    foreach(file ${kernels})
      # An instruction set of few rows compiles their folders alone; see extra_isas in proa.schema.row.
      if(DEFINED PROA_KERNEL_FOLDERS_${isa} AND NOT file MATCHES
                                                "/(kernels/(${PROA_KERNEL_FOLDERS_${isa}})|simd)/")
        continue()
      endif()
      get_filename_component(name ${file} NAME)
      get_filename_component(folder ${file} DIRECTORY)
      if(name MATCHES "^([^.]+)\\.([^.]+)\\.cc$")
        if(CMAKE_MATCH_2 STREQUAL ${isa})
          list(APPEND sources ${file})
        endif()
      else()
        string(REGEX REPLACE "\\.cc$" ".${isa}.cc" tuned ${name})
        if(NOT EXISTS ${folder}/${tuned})
          list(APPEND sources ${file})
        endif()
      endif()
    endforeach()
    add_library(${target}_${isa} OBJECT ${sources} ${gen}/kernel_table_${isa}.cc)
    target_include_directories(${target}_${isa} PRIVATE ${gen}/include)
    target_compile_definitions(${target}_${isa} PRIVATE PROA_ISA=${isa})
    target_compile_options(${target}_${isa} PRIVATE ${flags} ${PROA_FLAGS_${isa}} ${PROA_KERNEL_OPT}
                           ${PROA_KERNEL_OPT_${isa}})
    set_target_properties(${target}_${isa} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_STANDARD 17
                          CXX_STANDARD_REQUIRED ON)
    # Quantized arithmetic promises separate roundings of product and sum.
    foreach(file ${sources})
      if(file MATCHES "/kernels/quant/|/simd/gemm/micro_int8")
        set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
      endif()
    endforeach()
    # The compiler's header of vector instructions takes longer than most kernels that include it.
    if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
      target_precompile_headers(${target}_${isa} PRIVATE ${PROA_CORE_DIR}/csrc/portable/simd/vec.h)
      # A precompiled header forgets the warnings it switches off.
      target_compile_options(
        ${target}_${isa}
        PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    endif()
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${isa}>)
  endforeach()
endfunction()
