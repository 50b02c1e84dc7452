/* Bytes that are no model, or a damaged one: each ends in a status and a message. */
#include "check.h"

static const char* folder;

/* Opens the bytes; they must be refused. */
static void refuse(const unsigned char* bytes, size_t size) {
  proa_lite_model* model = (proa_lite_model*)bytes;
  const proa_lite_status status = proa_lite_open_bytes(bytes, size, &model);
  CHECK(status == PROA_LITE_BAD_MODEL || status == PROA_LITE_VERSION);
  CHECK(model == NULL && strlen(proa_lite_error(NULL)) > 20);
}

static void test_truncated(const char* name) {
  size_t size;
  unsigned char* bytes = read_file(folder, name, &size);
  for (size_t n = 0; n < size; n += n < 1024 ? 1 : 61) {
    unsigned char* cut = allocate(n);
    memcpy(cut, bytes, n);
    refuse(cut, n);
    free(cut);
  }
  free(bytes);
}

static void test_flipped(const char* name) {
  size_t size;
  unsigned char* bytes = read_file(folder, name, &size);
  for (size_t at = 0; at < size; ++at) {
    const unsigned char bit = (unsigned char)(1u << (at % 8));
    bytes[at] ^= bit;
    refuse(bytes, size);
    bytes[at] ^= bit;
  }
  proa_lite_model* model = NULL;
  CHECK_OK(proa_lite_open_bytes(bytes, size, &model), NULL);
  proa_lite_close(model);
  free(bytes);
}

static uint32_t crc32(const unsigned char* bytes, size_t size, size_t zero_at) {
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < size; ++i) {
    crc ^= i - zero_at < 4 ? 0u : bytes[i];
    for (int k = 0; k < 8; ++k) crc = (crc >> 1) ^ ((crc & 1) ? 0xedb88320u : 0);
  }
  return ~crc;
}

/* A graph that was changed and signed again may be refused or run, but not crash. */
static void test_forged(const char* name) {
  size_t size;
  unsigned char* bytes = read_file(folder, name, &size);
  uint64_t json;
  memcpy(&json, bytes, 8);
  const size_t graph = 8 + (size_t)json, checksum = graph + 32;
  uint64_t graph_size;
  memcpy(&graph_size, bytes + graph + 16, 8);
  uint32_t random = 12345, opened = 0;
  for (int i = 0; i < 3000; ++i) {
    random = random * 1664525u + 1013904223u;
    const size_t at = graph + (random >> 8) % graph_size;
    const unsigned char old = bytes[at];
    random = random * 1664525u + 1013904223u;
    bytes[at] = (i & 1) ? (unsigned char)(old + (random >> 28) - 7) : (unsigned char)(random >> 24);
    uint32_t crc = crc32(bytes, size, checksum), before;
    memcpy(&before, bytes + checksum, 4);
    memcpy(bytes + checksum, &crc, 4);
    proa_lite_model* model = NULL;
    if (proa_lite_open_bytes(bytes, size, &model) == PROA_LITE_OK) {
      proa_lite_array in = input_spec(model, 0, 2), out[8];
      static double x[4096];
      memset(out, 0, sizeof(out));
      in.data = x;
      ++opened;
      if (proa_lite_input_count(model) == 1 && byte_size(&in) <= sizeof(x)) {
        if (proa_lite_run(model, &in, out) != PROA_LITE_OK) {
          CHECK(proa_lite_error(model)[0] == '[');
        }
      }
      proa_lite_close(model);
    }
    memcpy(bytes + checksum, &before, 4);
    bytes[at] = old;
  }
  printf("%s: %u of 3000 forged files opened\n", name, opened);
  free(bytes);
}

static void test_foreign(void) {
  size_t size;
  unsigned char* bytes = read_file(folder, "mlp.in", &size);
  refuse(bytes, size);
  free(bytes);
  unsigned char* block = allocate(4096);
  uint32_t random = 7;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 4096; ++i) {
      random = random * 1664525u + 1013904223u;
      block[i] = (unsigned char)(random >> 24);
    }
    /* Half of them are safetensors files as far as the first eight bytes can tell. */
    const uint64_t json = 56 + 64 * (uint64_t)(round % 60);
    if (round & 1) memcpy(block, &json, 8);
    if (round & 2) memcpy(block + 64 + 64 * (round % 60), "PROAGRPH\1\0\0\0", 12);
    refuse(block, 4096);
  }
  memset(block, 0, 4096);
  refuse(block, 4096);
  refuse(block, 0);
  memset(block, 0xff, 4096);
  refuse(block, 4096);
  free(block);
}

static void test_paths(void) {
  proa_lite_model* model = NULL;
  CHECK(proa_lite_open("/no/such/file.proa", &model) == PROA_LITE_NOT_FOUND);
  CHECK(model == NULL && strstr(proa_lite_error(NULL), "/no/such/file.proa") != NULL);
  CHECK(proa_lite_open(folder, &model) == PROA_LITE_NOT_FOUND);
  char path[1024];
  snprintf(path, sizeof(path), "%s/mlp.out", folder);
  CHECK(proa_lite_open(path, &model) == PROA_LITE_BAD_MODEL);
  size_t size;
  unsigned char* bytes = read_file(folder, "mlp.proa", &size);
  unsigned char* shifted = malloc(size + 128);
  CHECK(shifted != NULL);
  unsigned char* odd = shifted + (64 - (uintptr_t)shifted % 64) + 1;
  memcpy(odd, bytes, size);
  CHECK(proa_lite_open_bytes(odd, size, &model) == PROA_LITE_INVALID_ARGUMENT);
  CHECK(strstr(proa_lite_error(NULL), "aligned") != NULL);
  free(shifted);
  free(bytes);
}

/* Writes the first `size` bytes to the file in place, as cp does. */
static void overwrite(const char* path, const unsigned char* bytes, size_t size) {
  FILE* file = fopen(path, "wb");
  CHECK(file != NULL && fwrite(bytes, 1, size, file) == size);
  CHECK(fclose(file) == 0);
}

/* An open model does not notice what becomes of its file. */
static void test_overwritten(const char* name, const char* other) {
  char path[] = "/tmp/proa_lite_XXXXXX";
  const int handle = mkstemp(path);
  CHECK(handle >= 0 && close(handle) == 0);
  size_t size, other_size, lengths[] = {0, 100, 5000};
  unsigned char* bytes = read_file(folder, name, &size);
  unsigned char* others = read_file(folder, other, &other_size);
  for (int round = 0; round < 4; ++round) {
    overwrite(path, bytes, size);
    proa_lite_model* model = NULL;
    CHECK_OK(proa_lite_open(path, &model), NULL);
    proa_lite_array in = input_spec(model, 0, 2), out[8];
    static double x[4096];
    CHECK(byte_size(&in) <= sizeof(x));
    memset(x, 0, sizeof(x));
    memset(out, 0, sizeof(out));
    in.data = x;
    if (round < 3) {
      overwrite(path, bytes, lengths[round] < size ? lengths[round] : size / 2);
    } else {
      overwrite(path, others, other_size);
    }
    CHECK(strlen(proa_lite_input_name(model, 0)) > 0);
    CHECK_OK(proa_lite_run(model, &in, out), model);
    unsigned char* first = allocate(byte_size(&out[0]));
    memcpy(first, out[0].data, byte_size(&out[0]));
    proa_lite_model* clone = NULL;
    CHECK_OK(proa_lite_open_bytes(bytes, size, &clone), NULL);
    memset(out, 0, sizeof(out));
    CHECK_OK(proa_lite_run(clone, &in, out), clone);
    CHECK(memcmp(first, out[0].data, byte_size(&out[0])) == 0);
    free(first);
    proa_lite_close(clone);
    proa_lite_close(model);
  }
  CHECK(remove(path) == 0);
  free(bytes);
  free(others);
}

int main(int argc, char** argv) {
  CHECK(argc > 1);
  folder = argv[1];
  test_paths();
  test_overwritten("mlp.proa", "lenet.proa");
  test_foreign();
  test_truncated("mlp.proa");
  test_flipped("mlp.proa");
  test_forged("mlp.proa");
  return 0;
}
