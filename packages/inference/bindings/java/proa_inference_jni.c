/* The native methods of proa.inference.Predictor over proa_inference.h. */
#include <jni.h>
#include <proa_inference.h>
#include <stdlib.h>
#include <string.h>

#define NATIVE(type, name) JNIEXPORT type JNICALL Java_proa_inference_Predictor_##name

static void throw_last(JNIEnv* env, proa_status status) {
  jclass kind = (*env)->FindClass(env, "proa/inference/ProaException");
  if (kind == NULL) return;
  jmethodID make = (*env)->GetMethodID(env, kind, "<init>", "(ILjava/lang/String;)V");
  jstring text = (*env)->NewStringUTF(env, proa_last_error());
  if (make == NULL || text == NULL) return;
  jobject error = (*env)->NewObject(env, kind, make, (jint)status, text);
  if (error != NULL) (*env)->Throw(env, error);
}

static proa_predictor* predictor_of(jlong handle) { return (proa_predictor*)(intptr_t)handle; }

static int32_t copy_key(void* context, uint8_t key[PROA_KEY_BYTES]) {
  if (context == NULL) return 1;
  memcpy(key, context, PROA_KEY_BYTES);
  return 0;
}

static proa_status set_model(JNIEnv* env, proa_config* config, jstring path, jbyteArray bytes) {
  if (path != NULL) {
    const char* text = (*env)->GetStringUTFChars(env, path, NULL);
    if (text == NULL) return PROA_RESOURCE_EXHAUSTED;
    const proa_status status = proa_config_set_model(config, text);
    (*env)->ReleaseStringUTFChars(env, path, text);
    return status;
  }
  if (bytes == NULL) return PROA_OK; /* proa_predictor_create refuses it */
  jbyte* data = (*env)->GetByteArrayElements(env, bytes, NULL);
  if (data == NULL) return PROA_RESOURCE_EXHAUSTED;
  const size_t size = (size_t)(*env)->GetArrayLength(env, bytes);
  const proa_status status = proa_config_set_model_bytes(config, data, size);
  (*env)->ReleaseByteArrayElements(env, bytes, data, JNI_ABORT);
  return status;
}

NATIVE(jlong, create)(JNIEnv* env, jclass self, jstring path, jbyteArray bytes, jint threads,
                      jbyteArray key) {
  (void)self;
  proa_predictor* created = NULL;
  uint8_t secret[PROA_KEY_BYTES] = {0};
  proa_config* config = proa_config_create();
  proa_status status = set_model(env, config, path, bytes);
  if (status == PROA_OK) status = proa_config_set_threads(config, threads);
  if (key != NULL && status == PROA_OK) {
    const int fits = (*env)->GetArrayLength(env, key) == PROA_KEY_BYTES;
    if (fits) (*env)->GetByteArrayRegion(env, key, 0, PROA_KEY_BYTES, (jbyte*)secret);
    status = proa_config_set_key(config, copy_key, fits ? secret : NULL);
  }
  if (status == PROA_OK) status = proa_predictor_create(config, &created);
  memset(secret, 0, sizeof(secret));
  proa_config_free(config);
  if (status != PROA_OK && !(*env)->ExceptionCheck(env)) throw_last(env, status);
  return (jlong)(intptr_t)created;
}

NATIVE(jlong, cloneOf)(JNIEnv* env, jclass self, jlong handle) {
  (void)self;
  proa_predictor* created = NULL;
  const proa_status status = proa_predictor_clone(predictor_of(handle), &created);
  if (status != PROA_OK) throw_last(env, status);
  return (jlong)(intptr_t)created;
}

NATIVE(void, free)(JNIEnv* env, jclass self, jlong handle) {
  (void)env, (void)self;
  proa_predictor_free(predictor_of(handle));
}

NATIVE(jobjectArray, names)(JNIEnv* env, jclass self, jlong handle, jboolean inputs) {
  (void)self;
  const proa_predictor* p = predictor_of(handle);
  const int32_t count = inputs ? proa_input_count(p) : proa_output_count(p);
  jclass kind = (*env)->FindClass(env, "java/lang/String");
  jobjectArray names = kind == NULL ? NULL : (*env)->NewObjectArray(env, count, kind, NULL);
  for (int32_t i = 0; names != NULL && i < count; ++i) {
    const char* text = inputs ? proa_input_name(p, i) : proa_output_name(p, i);
    jstring name = (*env)->NewStringUTF(env, text);
    if (name == NULL) return NULL;
    (*env)->SetObjectArrayElement(env, names, i, name);
    (*env)->DeleteLocalRef(env, name);
  }
  return names;
}

static jlongArray sizes_of(JNIEnv* env, const proa_array* array) {
  jlong sizes[PROA_MAX_RANK];
  for (int32_t i = 0; i < array->rank; ++i) sizes[i] = array->shape[i];
  jlongArray shape = (*env)->NewLongArray(env, array->rank);
  if (shape != NULL) (*env)->SetLongArrayRegion(env, shape, 0, array->rank, sizes);
  return shape;
}

NATIVE(jlongArray, shape)(JNIEnv* env, jclass self, jlong handle, jint index) {
  (void)self;
  proa_array spec;
  const proa_status status = proa_input_spec(predictor_of(handle), index, &spec);
  if (status == PROA_OK) return sizes_of(env, &spec);
  throw_last(env, status);
  return NULL;
}

static int fill(JNIEnv* env, proa_array* to, jobject data, jint type, jlongArray shape) {
  jlong sizes[PROA_MAX_RANK];
  memset(to, 0, sizeof(*to));
  to->data = (*env)->GetDirectBufferAddress(env, data);
  to->dtype = (proa_dtype)type;
  to->rank = (*env)->GetArrayLength(env, shape);
  if (to->rank > PROA_MAX_RANK) return 1; /* refused by the run */
  (*env)->GetLongArrayRegion(env, shape, 0, to->rank, sizes);
  for (int32_t i = 0; i < to->rank; ++i) to->shape[i] = sizes[i];
  return !(*env)->ExceptionCheck(env);
}

static jobject buffer_of(JNIEnv* env, const proa_array* array) {
  jlong bytes = (jlong)proa_dtype_size(array->dtype);
  for (int32_t i = 0; i < array->rank; ++i) bytes *= array->shape[i];
  return bytes == 0 ? NULL : (*env)->NewDirectByteBuffer(env, array->data, bytes);
}

/* Sets what describes the outputs; returns buffers of the predictor's memory. */
static jobjectArray results(JNIEnv* env, const proa_array* out, int32_t count, jintArray types,
                            jobjectArray shapes) {
  jclass kind = (*env)->FindClass(env, "java/nio/ByteBuffer");
  jobjectArray created = kind == NULL ? NULL : (*env)->NewObjectArray(env, count, kind, NULL);
  for (int32_t i = 0; created != NULL && i < count; ++i) {
    const jint type = (jint)out[i].dtype;
    jlongArray shape = sizes_of(env, &out[i]);
    jobject buffer = buffer_of(env, &out[i]);
    if ((*env)->ExceptionCheck(env)) return NULL;
    (*env)->SetIntArrayRegion(env, types, i, 1, &type);
    (*env)->SetObjectArrayElement(env, shapes, i, shape);
    (*env)->SetObjectArrayElement(env, created, i, buffer);
    (*env)->DeleteLocalRef(env, shape);
    (*env)->DeleteLocalRef(env, buffer);
  }
  return created;
}

NATIVE(jobjectArray, run)(JNIEnv* env, jclass self, jlong handle, jobjectArray data,
                          jintArray types, jobjectArray shapes, jintArray out_types,
                          jobjectArray out_shapes) {
  (void)self;
  proa_predictor* p = predictor_of(handle);
  const int32_t given = proa_input_count(p), count = proa_output_count(p);
  proa_array* in = calloc((size_t)given + 1, sizeof(proa_array));
  proa_array* out = calloc((size_t)count + 1, sizeof(proa_array));
  jobjectArray created = NULL;
  int fits = in != NULL && out != NULL;
  for (int32_t i = 0; fits && i < given; ++i) {
    jobject buffer = (*env)->GetObjectArrayElement(env, data, i);
    jlongArray shape = (*env)->GetObjectArrayElement(env, shapes, i);
    jint type = 0;
    (*env)->GetIntArrayRegion(env, types, i, 1, &type);
    fits = fill(env, &in[i], buffer, type, shape);
    (*env)->DeleteLocalRef(env, buffer);
    (*env)->DeleteLocalRef(env, shape);
  }
  if (fits) {
    const proa_status status = proa_predictor_run(p, in, out);
    if (status == PROA_OK) {
      created = results(env, out, count, out_types, out_shapes);
    } else {
      throw_last(env, status);
    }
  }
  free(in);
  free(out);
  return created;
}
