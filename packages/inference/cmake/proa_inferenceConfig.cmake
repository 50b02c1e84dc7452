# find_package(proa_inference): the target proa::inference, with headers for C and C++.
#
#   cmake -Dproa_inference_DIR=$(proa-infer where cmake) ..
get_filename_component(_root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
if(NOT TARGET proa::inference)
  add_library(proa::inference SHARED IMPORTED)
  set_target_properties(
    proa::inference
    PROPERTIES IMPORTED_LOCATION "${_root}/lib/libproa_inference.so"
               INTERFACE_INCLUDE_DIRECTORIES "${_root}/include")
endif()
set(proa_inference_FOUND TRUE)
unset(_root)
