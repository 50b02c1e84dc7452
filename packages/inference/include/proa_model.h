/* The structure of a model file (.proa), for programs that read models by themselves. C99, by
 * itself: nothing is linked. Format version 1; all integers are little-endian.
 *
 * A file is a safetensors file: 8 bytes that say how long its JSON is, the JSON, and the data
 * section, which begins with the graph. Compressed files ("PROADEFL") are not read here.
 *
 *   const proa_model_header* graph = proa_model_graph(bytes, size);
 *   const proa_model_node* nodes = proa_model_rows(graph, PROA_MODEL_NODES);
 *   const proa_model_op* ops = proa_model_rows(graph, PROA_MODEL_OPS);
 *   for (uint32_t i = 0; i < graph->tables[PROA_MODEL_NODES].count; ++i)
 *     puts(proa_model_string(graph, ops[nodes[i].op].name));
 *
 * proa_model_graph checks that the tables are within the graph. Numbers in their rows are those of
 * a file that proa_predictor_load accepts; of files that it may not, check them before they are
 * used as an index. Weights are row-major, at data_offset from the graph's start. Attributes are
 * the operator's struct in the order of its reference page: int, bool, choice (its index) and dtype
 * as int64_t, float as double, ints as int64_t count (-1: None) and int64_t[8], a scalar as int64_t
 * is_int and int64_t or double. Structs may be shorter than a later version's. */
#ifndef PROA_MODEL_H_
#define PROA_MODEL_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PROA_MODEL_FORMAT 1
#define PROA_MODEL_NONE 0xffffffffu /* among ids: an optional input that is not given */

/* The tables of a graph. Strings are bytes that end with NUL; a row says where. Attributes have no
 * rows: their count is in bytes. */
enum {
  PROA_MODEL_STRINGS,
  PROA_MODEL_OPS,
  PROA_MODEL_VALUES,
  PROA_MODEL_NODES,
  PROA_MODEL_BLOCKS,
  PROA_MODEL_IDS, /* uint32_t: numbers of values */
  PROA_MODEL_METADATA,
  PROA_MODEL_ATTRIBUTES,
  PROA_MODEL_TABLES
};

typedef struct proa_model_table {
  uint32_t offset; /* from the start of the graph */
  uint32_t count;
} proa_model_table;

typedef struct proa_model_header {
  char magic[8]; /* "PROAGRPH" */
  uint32_t format;
  uint32_t header_bytes; /* at least those of this struct */
  uint64_t graph_bytes;
  uint64_t data_bytes; /* of the data section: graph and weights */
  uint32_t checksum;   /* CRC-32 of the whole file with this field zero */
  uint32_t zero;
  proa_model_table tables[PROA_MODEL_TABLES];
} proa_model_header;

typedef struct proa_model_text {
  uint32_t offset; /* from the start of the graph */
  uint32_t size;   /* without the NUL */
} proa_model_text;

/* An operator as the file names it, and the version of its meaning. */
typedef struct proa_model_op {
  uint32_t name; /* of strings */
  uint32_t version;
} proa_model_op;

enum { PROA_MODEL_RESULT, PROA_MODEL_INPUT, PROA_MODEL_CONSTANT, PROA_MODEL_PARAMETER };

/* An array. First come all constants and parameters, which have data; then, for each block, its
 * inputs and its nodes' results in the order of the nodes. */
typedef struct proa_model_value {
  uint32_t name; /* of strings */
  uint8_t dtype; /* a proa_dtype of proa_inference.h */
  int8_t rank;   /* 0 to 8 */
  uint8_t kind;
  uint8_t zero;
  int64_t shape[8];     /* -1: known at run time alone */
  uint64_t data_offset; /* from the start of the graph */
  uint64_t data_bytes;
} proa_model_value;

typedef struct proa_model_node {
  uint32_t op;
  uint32_t first_input; /* of ids */
  uint32_t inputs;
  uint32_t first_output; /* of values: the outputs are consecutive */
  uint32_t outputs;
  uint32_t attribute_offset; /* from the start of the graph */
  uint32_t attribute_bytes;
  uint32_t zero;
} proa_model_node;

/* Block 0 is the model; others are bodies of its branches and loops. */
typedef struct proa_model_block {
  uint32_t first_node;
  uint32_t nodes;
  uint32_t first_value;
  uint32_t values;
  uint32_t inputs;       /* its first values */
  uint32_t first_output; /* of ids */
  uint32_t outputs;
  uint32_t zero;
} proa_model_block;

typedef struct proa_model_note {
  uint32_t key;   /* of strings */
  uint32_t value; /* of strings */
} proa_model_note;

/* The graph of a file in memory, or NULL if the bytes are not a whole model of this format. They
 * must be aligned to 8. */
static inline const proa_model_header* proa_model_graph(const void* bytes, size_t size) {
  static const uint32_t row_bytes[PROA_MODEL_TABLES] = {
      sizeof(proa_model_text),  sizeof(proa_model_op),
      sizeof(proa_model_value), sizeof(proa_model_node),
      sizeof(proa_model_block), 4,
      sizeof(proa_model_note),  1};
  uint64_t json;
  const proa_model_header* graph;
  int i;
  if (size < 8 + sizeof(proa_model_header)) return NULL;
  memcpy(&json, bytes, 8);
  if (json % 8 != 0 || json > size - 8 - sizeof(proa_model_header)) return NULL;
  graph = (const proa_model_header*)((const char*)bytes + 8 + json);
  if (memcmp(graph->magic, "PROAGRPH", 8) != 0 || graph->format != PROA_MODEL_FORMAT) return NULL;
  if (graph->data_bytes != size - 8 - json || graph->graph_bytes > graph->data_bytes) return NULL;
  for (i = 0; i < PROA_MODEL_TABLES; ++i) {
    const proa_model_table t = graph->tables[i];
    if (t.offset > graph->graph_bytes || t.offset % 4 != 0) return NULL;
    if ((uint64_t)t.count * row_bytes[i] > graph->graph_bytes - t.offset) return NULL;
  }
  return graph;
}

/* The rows of a table. */
static inline const void* proa_model_rows(const proa_model_header* graph, int table) {
  return (const char*)graph + graph->tables[table].offset;
}

/* A string by its number; NULL if there is none. */
static inline const char* proa_model_string(const proa_model_header* graph, uint32_t id) {
  const proa_model_text* texts = (const proa_model_text*)proa_model_rows(graph, PROA_MODEL_STRINGS);
  if (id >= graph->tables[PROA_MODEL_STRINGS].count) return NULL;
  if (texts[id].offset > graph->graph_bytes) return NULL;
  if (texts[id].size >= graph->graph_bytes - texts[id].offset) return NULL;
  if (((const char*)graph)[texts[id].offset + texts[id].size] != 0) return NULL;
  return (const char*)graph + texts[id].offset;
}

#ifdef __cplusplus
}
#endif

#endif /* PROA_MODEL_H_ */
