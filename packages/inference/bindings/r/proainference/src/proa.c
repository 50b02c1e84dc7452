/* What R/predictor.R calls, over proa_inference.h. R has doubles and integers: numbers are
 * converted to the type of each input, and outputs to doubles. */
#include <R.h>
#include <R_ext/Rdynload.h>
#include <Rinternals.h>
#include <proa_inference.h>
#include <stdlib.h>
#include <string.h>

static void check(proa_status status) {
  if (status != PROA_OK) Rf_error("%s", proa_last_error());
}

static void finish(SEXP pointer) {
  proa_predictor_free(R_ExternalPtrAddr(pointer));
  R_ClearExternalPtr(pointer);
}

static SEXP own(proa_predictor* predictor) {
  SEXP pointer = PROTECT(R_MakeExternalPtr(predictor, Rf_install("proa_predictor"), R_NilValue));
  R_RegisterCFinalizerEx(pointer, finish, TRUE);
  UNPROTECT(1);
  return pointer;
}

static proa_predictor* predictor_of(SEXP pointer) {
  proa_predictor* found = TYPEOF(pointer) == EXTPTRSXP ? R_ExternalPtrAddr(pointer) : NULL;
  if (found == NULL) Rf_error("expected a predictor of proa_load");
  return found;
}

static int32_t copy_key(void* context, uint8_t key[PROA_KEY_BYTES]) {
  SEXP given = context;
  if (TYPEOF(given) != RAWSXP || XLENGTH(given) != PROA_KEY_BYTES) return 1;
  memcpy(key, RAW(given), PROA_KEY_BYTES);
  return 0;
}

static SEXP proa_load(SEXP path, SEXP bytes, SEXP threads, SEXP key) {
  proa_config* config = proa_config_create();
  proa_predictor* created = NULL;
  proa_status status = PROA_OK;
  if (TYPEOF(path) == STRSXP) {
    status = proa_config_set_model(config, CHAR(STRING_ELT(path, 0)));
  } else if (TYPEOF(bytes) == RAWSXP) {
    status = proa_config_set_model_bytes(config, RAW(bytes), (size_t)XLENGTH(bytes));
  }
  if (status == PROA_OK) status = proa_config_set_threads(config, Rf_asInteger(threads));
  if (status == PROA_OK && key != R_NilValue) status = proa_config_set_key(config, copy_key, key);
  if (status == PROA_OK) status = proa_predictor_create(config, &created);
  proa_config_free(config);
  check(status);
  return own(created);
}

static SEXP proa_clone(SEXP pointer) {
  proa_predictor* created = NULL;
  check(proa_predictor_clone(predictor_of(pointer), &created));
  return own(created);
}

static SEXP sizes_of(const proa_array* array) {
  SEXP sizes = PROTECT(Rf_allocVector(REALSXP, array->rank));
  for (int32_t i = 0; i < array->rank; ++i) REAL(sizes)[i] = (double)array->shape[i];
  UNPROTECT(1);
  return sizes;
}

static SEXP proa_specs(SEXP pointer, SEXP inputs) {
  const proa_predictor* p = predictor_of(pointer);
  const int of_inputs = Rf_asLogical(inputs);
  const int32_t count = of_inputs ? proa_input_count(p) : proa_output_count(p);
  SEXP specs = PROTECT(Rf_allocVector(VECSXP, count));
  SEXP names = PROTECT(Rf_allocVector(STRSXP, count));
  for (int32_t i = 0; i < count; ++i) {
    proa_array spec;
    check(of_inputs ? proa_input_spec(p, i, &spec) : proa_output_spec(p, i, &spec));
    SET_VECTOR_ELT(specs, i, sizes_of(&spec));
    const char* name = of_inputs ? proa_input_name(p, i) : proa_output_name(p, i);
    SET_STRING_ELT(names, i, Rf_mkChar(name));
  }
  Rf_setAttrib(specs, R_NamesSymbol, names);
  UNPROTECT(2);
  return specs;
}

#define EACH_TYPE(USE)     \
  USE(PROA_BOOL, uint8_t)  \
  USE(PROA_UINT8, uint8_t) \
  USE(PROA_INT8, int8_t)   \
  USE(PROA_INT16, int16_t) \
  USE(PROA_INT32, int32_t) \
  USE(PROA_INT64, int64_t) USE(PROA_FLOAT32, float) USE(PROA_FLOAT64, double)

static void write_values(const proa_array* to, const double* from, size_t count) {
#define WRITE(code, type)                                                    \
  case code:                                                                 \
    for (size_t i = 0; i < count; ++i) ((type*)to->data)[i] = (type)from[i]; \
    return;
  switch (to->dtype) {
    EACH_TYPE(WRITE)
    default:
      Rf_error("an input has a type that R has not");
  }
}

static void read_values(const proa_array* from, double* to, size_t count) {
#define READ(code, type)                                                             \
  case code:                                                                         \
    for (size_t i = 0; i < count; ++i) to[i] = (double)((const type*)from->data)[i]; \
    return;
  switch (from->dtype) {
    EACH_TYPE(READ)
    default:
      Rf_error("an output has a type that R has not");
  }
}

static size_t count_of(const proa_array* array) {
  size_t count = 1;
  for (int32_t i = 0; i < array->rank; ++i) count *= (size_t)array->shape[i];
  return count;
}

static void set_input(proa_predictor* p, int32_t index, SEXP given) {
  SEXP values = PROTECT(Rf_coerceVector(VECTOR_ELT(given, 0), REALSXP));
  SEXP sizes = VECTOR_ELT(given, 1);
  int64_t shape[PROA_MAX_RANK];
  if (XLENGTH(sizes) > PROA_MAX_RANK) Rf_error("an input must have at most 8 axes");
  for (R_xlen_t i = 0; i < XLENGTH(sizes); ++i) shape[i] = (int64_t)REAL(sizes)[i];
  proa_tensor* handle = NULL;
  proa_array spec, array;
  check(proa_input_spec(p, index, &spec));
  check(proa_predictor_input(p, proa_input_name(p, index), &handle));
  /* A number is a vector of one element in R. */
  const int32_t rank = spec.rank == 0 && XLENGTH(values) == 1 ? 0 : (int32_t)XLENGTH(sizes);
  check(proa_tensor_reshape(handle, rank, shape));
  check(proa_tensor_array(handle, &array));
  write_values(&array, REAL(values), count_of(&array));
  UNPROTECT(1);
}

static SEXP proa_run(SEXP pointer, SEXP inputs) {
  proa_predictor* p = predictor_of(pointer);
  for (int32_t i = 0; i < proa_input_count(p); ++i) set_input(p, i, VECTOR_ELT(inputs, i));
  check(proa_predictor_run_tensors(p));
  const int32_t count = proa_output_count(p);
  SEXP results = PROTECT(Rf_allocVector(VECSXP, count));
  SEXP names = PROTECT(Rf_allocVector(STRSXP, count));
  for (int32_t i = 0; i < count; ++i) {
    proa_tensor* handle = NULL;
    proa_array array;
    check(proa_predictor_output(p, proa_output_name(p, i), &handle));
    check(proa_tensor_array(handle, &array));
    SEXP result = PROTECT(Rf_allocVector(VECSXP, 2));
    SEXP values = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)count_of(&array)));
    read_values(&array, REAL(values), count_of(&array));
    SET_VECTOR_ELT(result, 0, values);
    SET_VECTOR_ELT(result, 1, sizes_of(&array));
    SET_VECTOR_ELT(results, i, result);
    SET_STRING_ELT(names, i, Rf_mkChar(proa_output_name(p, i)));
    UNPROTECT(2);
  }
  Rf_setAttrib(results, R_NamesSymbol, names);
  UNPROTECT(2);
  return results;
}

static SEXP proa_version_of_library(void) { return Rf_mkString(proa_version()); }

static const R_CallMethodDef kMethods[] = {
    {"C_proa_load", (DL_FUNC)&proa_load, 4},
    {"C_proa_clone", (DL_FUNC)&proa_clone, 1},
    {"C_proa_specs", (DL_FUNC)&proa_specs, 2},
    {"C_proa_run", (DL_FUNC)&proa_run, 2},
    {"C_proa_version", (DL_FUNC)&proa_version_of_library, 0},
    {NULL, NULL, 0},
};

void R_init_proainference(DllInfo* info) {
  R_registerRoutines(info, NULL, kMethods, NULL, NULL);
  R_useDynamicSymbols(info, FALSE);
}
