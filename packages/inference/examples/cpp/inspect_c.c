/* Prints the nodes of a model, read by proa_model.h alone: inspect_c MODEL. */
#include <proa_model.h>
#include <stdio.h>
#include <stdlib.h>

static void* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) return NULL;
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  void* bytes = malloc(*size);
  if (bytes != NULL && fread(bytes, 1, *size, file) != *size) *size = 0;
  fclose(file);
  return bytes;
}

static void print_value(const proa_model_header* graph, uint32_t id) {
  const proa_model_value* values = proa_model_rows(graph, PROA_MODEL_VALUES);
  if (id == PROA_MODEL_NONE) {
    printf(" -");
    return;
  }
  if (id >= graph->tables[PROA_MODEL_VALUES].count || values[id].rank > 8) exit(1);
  const char* name = proa_model_string(graph, values[id].name);
  printf(" %s:%d(", name == NULL ? "?" : name, values[id].dtype);
  for (int a = 0; a < values[id].rank; ++a) {
    printf(a == 0 ? "%lld" : ",%lld", (long long)values[id].shape[a]);
  }
  printf(")");
}

int main(int argc, char** argv) {
  size_t size = 0;
  void* bytes = argc == 2 ? read_file(argv[1], &size) : NULL;
  const proa_model_header* graph = bytes == NULL ? NULL : proa_model_graph(bytes, size);
  if (graph == NULL) {
    fprintf(stderr, "expected a model file\n");
    return 1;
  }
  const proa_model_node* nodes = proa_model_rows(graph, PROA_MODEL_NODES);
  const proa_model_op* ops = proa_model_rows(graph, PROA_MODEL_OPS);
  const uint32_t* ids = proa_model_rows(graph, PROA_MODEL_IDS);
  for (uint32_t i = 0; i < graph->tables[PROA_MODEL_NODES].count; ++i) {
    const proa_model_node* node = &nodes[i];
    if (node->op >= graph->tables[PROA_MODEL_OPS].count) return 1;
    const char* op = proa_model_string(graph, ops[node->op].name);
    printf("%s.%u", op == NULL ? "?" : op, (unsigned)ops[node->op].version);
    for (uint32_t k = 0; k < node->inputs; ++k) {
      if (node->first_input + k >= graph->tables[PROA_MODEL_IDS].count) return 1;
      print_value(graph, ids[node->first_input + k]);
    }
    printf(" ->");
    for (uint32_t k = 0; k < node->outputs; ++k) print_value(graph, node->first_output + k);
    printf("\n");
  }
  free(bytes);
  return 0;
}
