/* The check of the programs in this folder, in C and C++. */
#ifndef CHECK_H_
#define CHECK_H_

#include <proa_inference.h>
#include <stdio.h>

/* Ends the calling function, which returns an int, with 1 where the condition does not hold. */
#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, proa_last_error()); \
      return 1;                                                                       \
    }                                                                                 \
  } while (0)

#endif /* CHECK_H_ */
